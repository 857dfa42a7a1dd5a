// SwiGLU in a Llama block, also of adapted layers, and its gradients; compiled together with llama.cu.
#pragma once
#include "llama.cu"

__device__ inline float silu(float x) { return x / (1 + __expf(-x)); }

// The gradients of gate and up, computed from dy, the gradient of silu(gate) up.
__device__ inline void silu_backward(float dy, float gate, float up, float& dgate, float& dup) {
  float sigmoid = 1 / (1 + __expf(-gate));
  dgate = dy * up * sigmoid * (1 + gate * (1 - sigmoid));
  dup = dy * gate * sigmoid;
}

// silu(gate) up of rows [gate | up]. blockIdx.y is a range of columns, blockIdx.x a range of `span` tokens.
template <bool ADAPTED>
__device__ inline void swiglu_of(const T* __restrict__ gates, const T* __restrict__ u, T* __restrict__ y, const Parts<T>& parts,
                                 int tokens, int width, int span) {
  int i = (blockIdx.y * blockDim.x + threadIdx.x) * N;
  if (i >= width) return;
  Narrow<N> to_gate, to_up;
  if (ADAPTED) to_gate.rows(parts.b[0], i), to_up.rows(parts.b[1], i);
  // The values of the next token are loaded while those of this one are used.
  int first = blockIdx.x * span, end = min(first + span, tokens);
  const T* from = gates + (i64)first * 2 * width + i;
  Pack gate, above, next = load(from), next_above = load(from + width);
  for (int t = first; t < end; t++) {
    gate = next, above = next_above;
    if (t + 1 < end) from += 2 * width, next = load(from), next_above = load(from + width);
    float x[N], z[N];
    if (ADAPTED) {
      to_gate.add(gate, u + (i64)t * 2 * R, x);
      to_up.add(above, u + (i64)t * 2 * R + R, z);
    } else {
      for (int k = 0; k < N; k++) x[k] = wide(gate.v[k]), z[k] = wide(above.v[k]);
    }
    for (int k = 0; k < N; k++) narrow(silu(x[k]) * z[k], gate.v[k]);
    store(y + (i64)t * width + i, gate);
  }
}
extern "C" __global__ void __launch_bounds__(128)
swiglu(const T* gates, const T* u, T* y, const __grid_constant__ Parts<T> parts, int tokens, int width, int span) {
  swiglu_of<false>(gates, u, y, parts, tokens, width, span);
}
// The same for rows + u B^T, whose parts are gate and up.
extern "C" __global__ void __launch_bounds__(128)
swiglu_adapted(const T* gates, const T* u, T* y, const __grid_constant__ Parts<T> parts, int tokens, int width, int span) {
  swiglu_of<true>(gates, u, y, parts, tokens, width, span);
}

// For rows [gate | up] and y = silu(gate) up: the gradient of the rows, computed from that of y, and y. blockIdx.y is a range of columns,
// blockIdx.x a token.
extern "C" __global__ void __launch_bounds__(128)
swiglu_backward(const T* __restrict__ grad, const T* __restrict__ gates, T* __restrict__ dgates, T* __restrict__ y, int width) {
  int i = (blockIdx.y * blockDim.x + threadIdx.x) * N;
  if (i >= width) return;
  i64 row = (i64)blockIdx.x * width + i, at = (i64)blockIdx.x * 2 * width + i;
  Pack dy = load(grad + row), g = load(gates + at), above = load(gates + at + width), out;
  for (int k = 0; k < N; k++) {
    float x = wide(g.v[k]), z = wide(above.v[k]), dgate, dup;
    silu_backward(wide(dy.v[k]), x, z, dgate, dup);
    narrow(silu(x) * z, out.v[k]);
    narrow(dgate, g.v[k]);
    narrow(dup, above.v[k]);
  }
  store(dgates + at, g);
  store(dgates + at + width, above);
  store(y + row, out);
}

constexpr int FEW = BAND / 32;        // columns per lane

// Adds the sums of 8 warps, each over the same BAND columns of [j, i], and writes them as [j, i], or with `turned` as [i, j].
__device__ inline void reduce_band(const Narrow<FEW>& s, int width, T* out, bool turned) {
  __shared__ float parts[8][R][BAND];
  int lane = threadIdx.x % 32;
  __syncthreads();
  for (int j = 0; j < R; j++) for (int k = 0; k < FEW; k++) parts[threadIdx.x / 32][j][lane * FEW + k] = s.v[j][k];
  __syncthreads();
  for (int v = threadIdx.x; v < R * BAND; v += 256) {
    int c = turned ? v / R : v % BAND, j = turned ? v % R : v / BAND, i = blockIdx.x * BAND + c;
    if (i >= width) continue;
    float sum = 0;
    for (int w = 0; w < 8; w++) sum += parts[w][j][c];
    narrow(sum, turned ? out[(i64)i * R + j] : out[(i64)j * width + i]);
  }
}

// The gradient of rows [gate | up] + u B^T. The gradient of y = silu(gate) up is grad + du A. Also computes the gradients of A, which
// belongs to the layer after y, and of both B. blockIdx.x is BAND columns; a warp works on every 8th token. Rows of grad are `stride`
// values apart, those of du `by`.
extern "C" __global__ void __launch_bounds__(256, R > 8 ? 1 : 2)
swiglu_adapted_backward(const T* __restrict__ grad, const T* __restrict__ gates, const T* __restrict__ u,
                        const __grid_constant__ Parts<T> parts, const T* __restrict__ du, const T* __restrict__ a,
                        T* __restrict__ dgates, T* __restrict__ da, T* __restrict__ db_gate, T* __restrict__ db_up, int tokens,
                        int width, i64 stride, i64 by) {
  int i = blockIdx.x * BAND + threadIdx.x % 32 * FEW, t = threadIdx.x / 32;
  bool inside = i < width;
  if (!inside) i = 0;
  Narrow<FEW> to_gate, to_up, below, sum_a = {}, sum_gate = {}, sum_up = {};
  to_gate.rows(parts.b[0], i), to_up.rows(parts.b[1], i), below.columns(a, i, width);
  // The values of the next token are loaded while those of this one are used.
  Values<FEW> dy, gate, above, next_dy = {}, next = {}, next_above = {};
  auto fetch = [&](int t) {
    if (t >= tokens) return;
    const T* from = gates + (i64)t * 2 * width + i;
    next_dy = load<FEW>(grad + t * stride + i), next = load<FEW>(from), next_above = load<FEW>(from + width);
  };
  for (fetch(t); t < tokens; t += 8) {
    dy = next_dy, gate = next, above = next_above;
    fetch(t + 8);
    const T *of_gate = u + (i64)t * 2 * R, *of_up = of_gate + R, *of_a = du + t * by;
    float x[FEW], z[FEW], d[FEW], y[FEW];
    to_gate.add(gate, of_gate, x);
    to_up.add(above, of_up, z);
    below.add(dy, of_a, d);
    for (int k = 0; k < FEW; k++) {
      float dgate, dup;
      silu_backward(d[k], x[k], z[k], dgate, dup);
      y[k] = silu(x[k]) * z[k];
      narrow(x[k] = dgate, gate.v[k]);
      narrow(z[k] = dup, above.v[k]);
    }
    if (inside) {
      T* to = dgates + (i64)t * 2 * width + i;
      store(to, gate);
      store(to + width, above);
    }
    sum_gate.gather(of_gate, x);
    sum_up.gather(of_up, z);
    sum_a.gather(of_a, y);
  }
  reduce_band(sum_a, width, da, false);
  reduce_band(sum_gate, width, db_gate, true);
  reduce_band(sum_up, width, db_up, true);
}
