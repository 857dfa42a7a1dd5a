// What the kernels of a Llama block share with the host. The host knows the type of activations, T, only at run time, so T is void there.
#pragma once

constexpr int MANY = 4;           // tokens that a thread works on at a time
constexpr int SUMMED = 32;        // maximum number of tokens in a block of `down` or `back`
constexpr int BAND = 64;          // columns in a block that works on all tokens
constexpr int STRIPE = 32;        // the same for kernels on tensor cores
constexpr int TOKEN_WARPS = 8;    // warps in a block that sums over tokens on tensor cores
constexpr int TILES = 16 * TOKEN_WARPS;   // tokens that such a block loads in one step
constexpr int ARRIVALS = 16384;   // maximum number of sums that blocks of one launch share

// The projections side by side in a layer's output: the adapter's B [width, rank] and the first column of each.
template <class T> struct Parts {
  const T* b[4];
  int start[4], width[4];
  int count;
};
static_assert(sizeof(Parts<void>) == 72);

// The gradients of the matrices B of `Parts`.
template <class T> struct Outs {
  T* b[4];
};
static_assert(sizeof(Outs<void>) == 32);

// A matrix B [width, rank], and where its product with `scale` is placed: rows that are `stride` values apart.
template <class T> struct Place {
  const T* b;
  T* to;
  long long stride;
  int width;
  float scale;
};
static_assert(sizeof(Place<void>) == 32);

template <class T> struct Places {
  Place<T> each[4];
};
static_assert(sizeof(Places<void>) == 128);

// One sum over tokens of w[t, j] x[t, i], for `rows` values of j; rows of x are `stride` values apart, those of w `by`.
template <class T> struct Outer {
  const T* x;
  long long stride;
  int width;
  const T* w;
  int by, rows;
  T* out;
  int across;
};
static_assert(sizeof(Outer<void>) == 56);

template <class T> struct Outers {
  Outer<T> each[8];
};
static_assert(sizeof(Outers<void>) == 448);
