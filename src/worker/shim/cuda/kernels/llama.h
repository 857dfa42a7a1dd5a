// What the kernels of a Llama block share with the host, which knows the type of activations, T, at run time only: it is void there.
#pragma once

constexpr int MANY = 4;           // tokens that a thread works on at a time
constexpr int SUMMED = 32;        // most tokens that a block of `down` or `back` works on
constexpr int BAND = 64;          // columns of a block that works on all tokens
constexpr int STRIPE = 32;        // the same on tensor cores
constexpr int TOKEN_WARPS = 8;    // of blocks that share a sum over tokens on tensor cores
constexpr int TILES = 16 * TOKEN_WARPS;   // tokens of such a block
constexpr int ARRIVALS = 16384;   // sums that blocks of one launch can share

// The projections that lie side by side in a layer's output: each one's adapter B [width, rank] and its first column.
template <class T> struct Parts {
  const T* b[4];
  int start[4], width[4];
  int count;
};
static_assert(sizeof(Parts<void>) == 72);

// The gradients of these B.
template <class T> struct Outs {
  T* b[4];
};
static_assert(sizeof(Outs<void>) == 32);

// One sum over tokens of w[t, j] x[t, i], for `rows` values of j from w; w has rows of `count`.
template <class T> struct Outer {
  const T* x;
  long long stride;
  int width;
  const T* w;
  int count, rows;
  T* out;
  int across;
};
static_assert(sizeof(Outer<void>) == 56);

template <class T> struct Outers {
  Outer<T> each[8];
};
static_assert(sizeof(Outers<void>) == 448);
