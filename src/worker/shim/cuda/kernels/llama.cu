// The fused kernels of a Llama block, which NVRTC compiles for this process's GPU. T is the type of activations, R the rank of adapters;
// all arithmetic is in fp32. A row is a token. Unless a comment says otherwise, one block of threads works on one row.
#pragma once
#include "values.cuh"
#include "llama.h"

constexpr int R = RANK;

// The sum of the values of a block's threads, returned to all of them.
__device__ inline float block_sum(float x) {
  __shared__ float part[32];
  for (int m = 16; m > 0; m >>= 1) x += __shfl_xor_sync(0xffffffff, x, m);
  __syncthreads();
  if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = x;
  __syncthreads();
  float sum = 0;
  for (int w = 0; w < (int)(blockDim.x >> 5); w++) sum += part[w];
  return sum;
}

extern "C" __global__ void rms_norm(const T* x, const T* weight, T* y, float* inverse, int dim, float epsilon) {
  i64 at = (i64)blockIdx.x * dim;
  float squares = 0;
  for (int i = threadIdx.x * N; i < dim; i += blockDim.x * N) {
    Pack a = load(x + at + i);
    for (int k = 0; k < N; k++) squares += wide(a.v[k]) * wide(a.v[k]);
  }
  float r = rsqrtf(block_sum(squares) / dim + epsilon);
  if (threadIdx.x == 0) inverse[blockIdx.x] = r;
  for (int i = threadIdx.x * N; i < dim; i += blockDim.x * N) {
    Pack a = load(x + at + i), w = load(weight + i);
    for (int k = 0; k < N; k++) narrow(wide(a.v[k]) * r * wide(w.v[k]), a.v[k]);
    store(y + at + i, a);
  }
}

// The loss of a row; its logits are replaced by their gradient.
extern "C" __global__ void cross_entropy(T* logits, const i64* labels, float* losses, int vocabulary) {
  T* row = logits + (i64)blockIdx.x * vocabulary;
  i64 label = labels[blockIdx.x];
  Pack zero;
  for (int k = 0; k < N; k++) narrow(0.0f, zero.v[k]);
  if (label < 0) {
    for (int i = threadIdx.x * N; i < vocabulary; i += blockDim.x * N) store(row + i, zero);
    if (threadIdx.x == 0) losses[blockIdx.x] = 0;
    return;
  }
  // The maximum and the sum of the exponentials relative to it, in one pass.
  float most = -3.4e38f, sum = 0;
  for (int i = threadIdx.x * N; i < vocabulary; i += blockDim.x * N) {
    Pack a = load(row + i);
    float m = most;
    for (int k = 0; k < N; k++) m = fmaxf(m, wide(a.v[k]));
    sum *= __expf(most - m);
    for (int k = 0; k < N; k++) sum += __expf(wide(a.v[k]) - m);
    most = m;
  }
  __shared__ float mosts[32];
  float all = most;
  for (int m = 16; m > 0; m >>= 1) all = fmaxf(all, __shfl_xor_sync(0xffffffff, all, m));
  if ((threadIdx.x & 31) == 0) mosts[threadIdx.x >> 5] = all;
  __syncthreads();
  for (int w = 0; w < (int)(blockDim.x >> 5); w++) all = fmaxf(all, mosts[w]);
  sum = block_sum(sum * __expf(most - all));
  if (threadIdx.x == 0) losses[blockIdx.x] = logf(sum) + all - wide(row[label]);
  __syncthreads();
  float scale = 1 / sum;
  for (int i = threadIdx.x * N; i < vocabulary; i += blockDim.x * N) {
    Pack a = load(row + i);
    for (int k = 0; k < N; k++) narrow(__expf(wide(a.v[k]) - all) * scale - (i + k == label ? 1.0f : 0.0f), a.v[k]);
    store(row + i, a);
  }
}

// ---------- adapters ----------

// C rows from i of a matrix B, or C columns from i of a matrix A. A thread keeps them in registers and uses them for many tokens.
template <int C> struct Narrow {
  float v[R][C];
  __device__ void rows(const T* b, int i) {
    for (int k = 0; k < C; k++) {
      for (int j = 0; j < R; j += N) {
        Pack q = load(b + (i64)(i + k) * R + j);
        for (int l = 0; l < N; l++) v[j + l][k] = wide(q.v[l]);
      }
    }
  }
  __device__ void columns(const T* a, int i, int width) {
    for (int j = 0; j < R; j++) {
      Values<C> q = load<C>(a + (i64)j * width + i);
      for (int k = 0; k < C; k++) v[j][k] = wide(q.v[k]);
    }
  }
  // sum = x + the product of the matrix and a row of R values.
  __device__ void add(const Values<C>& x, const T* u, float sum[C]) const {
    for (int k = 0; k < C; k++) sum[k] = wide(x.v[k]);
    for (int j = 0; j < R; j += N) {
      Pack q = load(u + j);
      for (int l = 0; l < N; l++) for (int k = 0; k < C; k++) sum[k] += wide(q.v[l]) * v[j + l][k];
    }
  }
  // Adds the outer product of a row of R values and x.
  __device__ void gather(const T* u, const float x[C]) {
    for (int j = 0; j < R; j += N) {
      Pack q = load(u + j);
      for (int l = 0; l < N; l++) for (int k = 0; k < C; k++) v[j + l][k] += wide(q.v[l]) * x[k];
    }
  }
};

// How many of COUNT values a lane has after `fold`.
__device__ constexpr int kept(int count, int m, int least) {
  return m < least ? count : kept(count % 2 == 0 ? count / 2 : count, m / 2, least);
}
// Adds COUNT values over the lanes whose numbers differ in the bits from M down to LEAST. The sums are distributed over these lanes;
// `first` is increased by the index at which a lane's own sums begin.
template <int COUNT, int M, int LEAST> __device__ inline void fold(float* s, int& first, int lane) {
  if constexpr (M >= LEAST) {
    if constexpr (COUNT % 2 == 0) {
      bool upper = lane & M;
      for (int j = 0; j < COUNT / 2; j++) {
        float mine = upper ? s[j + COUNT / 2] : s[j], other = upper ? s[j] : s[j + COUNT / 2];
        s[j] = mine + __shfl_xor_sync(0xffffffff, other, M);
      }
      if (upper) first += COUNT / 2;
      fold<COUNT / 2, M / 2, LEAST>(s, first, lane);
    } else {
      for (int j = 0; j < COUNT; j++) s[j] += __shfl_xor_sync(0xffffffff, s[j], M);
      fold<COUNT, M / 2, LEAST>(s, first, lane);
    }
  }
}

// For each sum that several blocks share, how many of them have finished. Kernels that use it run one after the other.
__device__ unsigned arrived[ARRIVALS];

// Whether this block is the last of `all` blocks to finish, so that it may read what the others wrote.
__device__ inline bool last(unsigned* count, unsigned all) {
  __shared__ bool is;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) is = atomicInc(count, all - 1) == all - 1;
  __syncthreads();
  if (is) __threadfence();
  return is;
}

// out[t, j] = scale * sum over i of x[t, i] m[j, i] for R rows of a matrix m, which `read` loads into registers. blockIdx.x is a range of
// 256 N columns, blockIdx.y a range of `span` tokens. Each block writes its sums to `parts`, and the last one adds them.
template <class Read>
__device__ inline void sum_rows(const T* __restrict__ x, i64 stride, int width, Read read, T* __restrict__ out, int count,
                                float* __restrict__ parts, int tokens, int span, float scale) {
  int i = (blockIdx.x * 256 + threadIdx.x) * N, first = blockIdx.y * span, end = min(first + span, tokens);
  int stretches = (width + 256 * N - 1) / (256 * N);
  if ((int)blockIdx.x >= stretches) return;
  Narrow<N> m = {};
  if (i < width) read(m, i);
  else i = 0;
  __shared__ float sums[8][SUMMED * R];
  for (int t = first; t < end; t += MANY) {
    Pack p[MANY];
    for (int e = 0; e < MANY; e++) p[e] = load(x + (i64)min(t + e, end - 1) * stride + i);
    float s[MANY * R] = {};
    for (int e = 0; e < MANY; e++) {
      for (int j = 0; j < R; j++) for (int k = 0; k < N; k++) s[e * R + j] += wide(p[e].v[k]) * m.v[j][k];
    }
    int at = (t - first) * R;
    fold<MANY * R, 16, 1>(s, at, threadIdx.x);
    for (int k = 0; k < kept(MANY * R, 16, 1); k++) sums[threadIdx.x / 32][at + k] = s[k];
  }
  __syncthreads();
  int values = (end - first) * R;
  float* of_group = parts + ((i64)blockIdx.z * gridDim.x * tokens + first) * R;
  for (int v = threadIdx.x; v < values; v += 256) {
    float sum = 0;
    for (int w = 0; w < 8; w++) sum += sums[w][v];
    of_group[(i64)blockIdx.x * tokens * R + v] = sum;
  }
  if (!last(arrived + blockIdx.z * gridDim.y + blockIdx.y, stretches)) return;
  for (int v = threadIdx.x; v < values; v += 256) {
    float sum = 0;
    for (int c = 0; c < stretches; c++) sum += __ldcg(of_group + (i64)c * tokens * R + v);
    narrow(sum * scale, out[(i64)(first + v / R) * count + v % R]);
  }
}

// u[t, j] = scale * sum over i of x[t, i] a[j, i], for `count` rows of a in groups of R: blockIdx.z is the group.
extern "C" __global__ void __launch_bounds__(256)
down(const T* x, const T* a, T* u, float* parts, int width, int count, int tokens, i64 stride, int span, float scale) {
  const T* rows = a + (i64)blockIdx.z * R * width;
  sum_rows(x, stride, width, [&](Narrow<N>& m, int i) { m.columns(rows, i, width); }, u + blockIdx.z * R, count, parts, tokens, span,
           scale);
}

// du[t, p R + j] = scale * sum over i of grad[t, start_p + i] b_p[i, j]; blockIdx.z is the part p.
extern "C" __global__ void __launch_bounds__(256)
back(const T* grad, const __grid_constant__ Parts<T> layer, T* du, float* parts, int tokens, i64 stride, int span, float scale) {
  int p = blockIdx.z;
  sum_rows(grad + layer.start[p], stride, layer.width[p], [&](Narrow<N>& m, int i) { m.rows(layer.b[p], i); }, du + p * R,
           layer.count * R, parts, tokens, span, scale);
}

// Writes scale b[i, j] to its place, for R values of j. blockIdx.y is the matrix B, blockIdx.x a range of its values.
extern "C" __global__ void place(const __grid_constant__ Places<T> places) {
  const Place<T>& p = places.each[blockIdx.y];
  int at = (blockIdx.x * blockDim.x + threadIdx.x) * N, i = at / R;
  if (i >= p.width) return;
  Pack q = load(p.b + at);
  for (int k = 0; k < N; k++) narrow(wide(q.v[k]) * p.scale, q.v[k]);
  store(p.to + i * p.stride + at % R, q);
}

// N values of u_t B_p^T from column i, for E tokens from t.
template <int E> __device__ inline void up(const T* u, const Parts<T>& parts, int p, int t, int i, int tokens, float s[E][N]) {
  float f[E][R];
  for (int e = 0; e < E; e++) {
    const T* from = u + (i64)min(t + e, tokens - 1) * parts.count * R + p * R;
    for (int j = 0; j < R; j += N) {
      Pack q = load(from + j);
      for (int k = 0; k < N; k++) f[e][j + k] = wide(q.v[k]);
    }
  }
  for (int k = 0; k < N; k++) {
    for (int e = 0; e < E; e++) s[e][k] = 0;
    for (int j = 0; j < R; j += N) {
      Pack q = load(parts.b[p] + (i64)(i + k) * R + j);
      for (int l = 0; l < N; l++) for (int e = 0; e < E; e++) s[e][k] += f[e][j + l] * wide(q.v[l]);
    }
  }
}

// N values of du_t A from column i, for E tokens from t. A has `count` rows, a multiple of 8; 8 rows are loaded at the same time. Rows of
// du are `by` values apart.
template <int E>
__device__ inline void down_again(const T* du, i64 by, const T* a, int t, int i, int width, int count, int tokens, float s[E][N]) {
  for (int e = 0; e < E; e++) for (int k = 0; k < N; k++) s[e][k] = 0;
  for (int first = 0; first < count; first += 8) {
    Pack q[8];
    for (int j = 0; j < 8; j++) q[j] = load(a + (i64)(first + j) * width + i);
    for (int e = 0; e < E; e++) {
      const T* from = du + min(t + e, tokens - 1) * by + first;
      for (int j = 0; j < 8; j += N) {
        Pack f = load(from + j);
        for (int l = 0; l < N; l++) for (int k = 0; k < N; k++) s[e][k] += wide(f.v[l]) * wide(q[j + l].v[k]);
      }
    }
  }
}

// y[t, start_p + i] += more[t, start_p + i] (if `more` is given) + sum over j of u[t, p R + j] b_p[i, j]. blockIdx.y is the part p,
// blockIdx.z a range of its columns, blockIdx.x MANY tokens.
extern "C" __global__ void add_up(T* __restrict__ y, const T* __restrict__ u, const T* __restrict__ more,
                                  const __grid_constant__ Parts<T> parts, int tokens, i64 stride) {
  int p = blockIdx.y, t = blockIdx.x * MANY, i = (blockIdx.z * blockDim.x + threadIdx.x) * N;
  if (i >= parts.width[p]) return;
  float s[MANY][N];
  up<MANY>(u, parts, p, t, i, tokens, s);
  for (int e = 0; e < MANY && t + e < tokens; e++) {
    i64 at = (i64)(t + e) * stride + parts.start[p] + i;
    Pack out = load(y + at), m;
    if (more) m = load(more + at);
    for (int k = 0; k < N; k++) narrow(wide(out.v[k]) + s[e][k] + (more ? wide(m.v[k]) : 0.0f), out.v[k]);
    store(y + at, out);
  }
}

// y = more + y + u B^T for rows that one part covers, and RMSNorm of y. A block works on E tokens.
template <int E>
__device__ inline void add_up_norm_of(T* __restrict__ y, const T* __restrict__ u, const T* __restrict__ more, const Parts<T>& parts,
                                      const T* __restrict__ weight, T* __restrict__ normed, float* __restrict__ inverse, int tokens,
                                      int dim, float epsilon) {
  int t = blockIdx.x * E;
  float squares[E] = {};
  for (int i = threadIdx.x * N; i < dim; i += blockDim.x * N) {
    float s[E][N] = {};
    if (parts.count) up<E>(u, parts, 0, t, i, tokens, s);
    for (int e = 0; e < E && t + e < tokens; e++) {
      i64 at = (i64)(t + e) * dim + i;
      Pack out = load(y + at), m = load(more + at);
      for (int k = 0; k < N; k++) {
        narrow(wide(out.v[k]) + s[e][k] + wide(m.v[k]), out.v[k]);
        squares[e] += wide(out.v[k]) * wide(out.v[k]);
      }
      store(y + at, out);
    }
  }
  for (int e = 0; e < E && t + e < tokens; e++) {
    float r = rsqrtf(block_sum(squares[e]) / dim + epsilon);
    if (threadIdx.x == 0) inverse[t + e] = r;
    for (int i = threadIdx.x * N; i < dim; i += blockDim.x * N) {
      i64 at = (i64)(t + e) * dim + i;
      Pack a = load(y + at), w = load(weight + i);
      for (int k = 0; k < N; k++) narrow(wide(a.v[k]) * r * wide(w.v[k]), a.v[k]);
      store(normed + at, a);
    }
  }
}

extern "C" __global__ void __launch_bounds__(1024)
add_up_norm(T* y, const T* u, const T* more, const __grid_constant__ Parts<T> parts, const T* weight, T* normed, float* inverse, int tokens,
            int dim, float epsilon) {
  add_up_norm_of<2>(y, u, more, parts, weight, normed, inverse, tokens, dim, epsilon);
}
extern "C" __global__ void __launch_bounds__(512, 2)
add_up_norm_many(T* y, const T* u, const T* more, const __grid_constant__ Parts<T> parts, const T* weight, T* normed, float* inverse,
                 int tokens, int dim, float epsilon) {
  add_up_norm_of<MANY>(y, u, more, parts, weight, normed, inverse, tokens, dim, epsilon);
}

// The gradient of RMSNorm's input x. The gradient of its output is grad + du A (only grad if there is no du). `more` is added to the
// result if it is given. A block works on E tokens. `grad` is overwritten. Rows of grad are `stride` values apart, those of du `by`.
template <int E>
__device__ inline void rms_norm_backward_of(T* __restrict__ grad, const T* __restrict__ x, const T* __restrict__ weight,
                                            const float* __restrict__ inverse, const T* __restrict__ more, const T* __restrict__ du,
                                            const T* __restrict__ a, T* __restrict__ dx, int dim, int count, int tokens, i64 stride,
                                            i64 by) {
  int t = blockIdx.x * E;
  float dot[E] = {};
  for (int i = threadIdx.x * N; i < dim; i += blockDim.x * N) {
    float s[E][N] = {};
    if (du) down_again<E>(du, by, a, t, i, dim, count, tokens, s);
    Pack w = load(weight + i);
    for (int e = 0; e < E && t + e < tokens; e++) {
      T* of_grad = grad + (t + e) * stride + i;
      Pack g = load(of_grad), v = load(x + (i64)(t + e) * dim + i);
      for (int k = 0; k < N; k++) {
        if (du) narrow(wide(g.v[k]) + s[e][k], g.v[k]);
        dot[e] += wide(g.v[k]) * wide(w.v[k]) * wide(v.v[k]);
      }
      if (du) store(of_grad, g);
    }
  }
  for (int e = 0; e < E && t + e < tokens; e++) {
    float r = inverse[t + e], c = block_sum(dot[e]) * r * r * r / dim;
    for (int i = threadIdx.x * N; i < dim; i += blockDim.x * N) {
      i64 at = (i64)(t + e) * dim + i;
      Pack g = load(grad + (t + e) * stride + i), v = load(x + at), w = load(weight + i), m;
      if (more) m = load(more + at);
      for (int k = 0; k < N; k++) {
        float d = wide(g.v[k]) * wide(w.v[k]) * r - c * wide(v.v[k]);
        narrow(more ? d + wide(m.v[k]) : d, g.v[k]);
      }
      store(dx + at, g);
    }
  }
}

extern "C" __global__ void __launch_bounds__(1024)
rms_norm_backward(T* grad, const T* x, const T* weight, const float* inverse, const T* more, const T* du, const T* a, T* dx, int dim,
                  int count, int tokens, i64 stride, i64 by) {
  rms_norm_backward_of<2>(grad, x, weight, inverse, more, du, a, dx, dim, count, tokens, stride, by);
}
extern "C" __global__ void __launch_bounds__(512, 2)
rms_norm_backward_many(T* grad, const T* x, const T* weight, const float* inverse, const T* more, const T* du, const T* a, T* dx,
                       int dim, int count, int tokens, i64 stride, i64 by) {
  rms_norm_backward_of<MANY>(grad, x, weight, inverse, more, du, a, dx, dim, count, tokens, stride, by);
}

// Rotates two packs of a head that are half a head apart.
__device__ inline void turn(Pack& a, Pack& b, const float* c, const float* s, float sign) {
  for (int k = 0; k < N; k++) {
    float x = wide(a.v[k]), y = wide(b.v[k]);
    narrow(x * c[k] - y * s[k] * sign, a.v[k]);
    narrow(y * c[k] + x * s[k] * sign, b.v[k]);
  }
}

// Rows [q | k | v] += u B^T, then queries and keys are rotated by their positions. If `repeated` is given, keys and values are written
// there instead of into the rows, once for each query head: [tokens, k | v, heads, width]. A thread works on two packs of a head and MANY
// tokens; blockIdx.y is a range of columns.
extern "C" __global__ void add_up_turn(T* __restrict__ rows, const T* __restrict__ u, const __grid_constant__ Parts<T> parts,
                                       const float* __restrict__ cos, const float* __restrict__ sin, const i64* positions,
                                       T* __restrict__ repeated, int heads, int kv_heads, int half, int tokens) {
  int t = blockIdx.x * MANY, at = (blockIdx.y * blockDim.x + threadIdx.x) * N, head = at / half, inside = at % half;
  int all = heads + 2 * kv_heads;
  if (head >= all) return;
  int width = all * 2 * half, i = head * 2 * half + inside;
  float s[MANY][N] = {}, z[MANY][N] = {};
  for (int p = 0; p < parts.count; p++) {
    if (i >= parts.start[p] && i < parts.start[p] + parts.width[p]) {
      up<MANY>(u, parts, p, t, i - parts.start[p], tokens, s);
      up<MANY>(u, parts, p, t, i + half - parts.start[p], tokens, z);
    }
  }
  for (int e = 0; e < MANY && t + e < tokens; e++) {
    T* row = rows + (i64)(t + e) * width + i;
    Pack a = load(row), b = load(row + half);
    for (int k = 0; k < N; k++) {
      narrow(wide(a.v[k]) + s[e][k], a.v[k]);
      narrow(wide(b.v[k]) + z[e][k], b.v[k]);
    }
    if (head < heads + kv_heads) {
      i64 table = positions[t + e] * half + inside;
      turn(a, b, cos + table, sin + table, 1.0f);
    }
    int copies = 1;
    if (repeated && head >= heads) {
      copies = heads / kv_heads;
      row = repeated + ((i64)(t + e) * 2 * heads + (head - heads) * copies) * 2 * half + inside;
    }
    for (int c = 0; c < copies; c++, row += 2 * half) {
      store(row, a);
      store(row + half, b);
    }
  }
}

// From the gradients of rotated queries and keys and of values to those of the rows, side by side and rotated back. The heads of a token
// are contiguous. The gradients of `repeats` successive keys or values are added.
extern "C" __global__ void turn_back(const T* q, const T* k, const T* v, T* rows, const float* cos, const float* sin,
                                     const i64* positions, int heads, int kv_heads, int repeats, int half, i64 q_stride, i64 k_stride,
                                     i64 v_stride) {
  int t = blockIdx.x;
  for (int at = threadIdx.x * N; at < (heads + 2 * kv_heads) * half; at += blockDim.x * N) {
    int head = at / half, inside = at % half;
    bool of_q = head < heads, of_k = !of_q && head < heads + kv_heads;
    const T* from = of_q   ? q + t * q_stride + head * 2 * half
                    : of_k ? k + t * k_stride + (head - heads) * repeats * 2 * half
                           : v + t * v_stride + (head - heads - kv_heads) * repeats * 2 * half;
    float x[N] = {}, y[N] = {};
    for (int c = 0; c < (of_q ? 1 : repeats); c++, from += 2 * half) {
      Pack a = load(from + inside), b = load(from + inside + half);
      for (int l = 0; l < N; l++) x[l] += wide(a.v[l]), y[l] += wide(b.v[l]);
    }
    Pack a, b;
    for (int l = 0; l < N; l++) narrow(x[l], a.v[l]), narrow(y[l], b.v[l]);
    if (of_q || of_k) {
      i64 table = positions[t] * half + inside;
      turn(a, b, cos + table, sin + table, -1.0f);
    }
    T* to = rows + ((i64)t * (heads + 2 * kv_heads) + head) * 2 * half + inside;
    store(to, a);
    store(to + half, b);
  }
}

// out[t, i] = dx[t, i] + sum over j of du[t, j] a[j, i]. Rows of dx are `stride` values apart, those of du `by`. blockIdx.y is a range of
// columns, blockIdx.x MANY tokens.
extern "C" __global__ void add_back(const T* dx, const T* du, const T* a, T* out, int width, int count, int tokens, i64 stride, i64 by) {
  int t = blockIdx.x * MANY, i = (blockIdx.y * blockDim.x + threadIdx.x) * N;
  if (i >= width) return;
  float s[MANY][N];
  down_again<MANY>(du, by, a, t, i, width, count, tokens, s);
  for (int e = 0; e < MANY && t + e < tokens; e++) {
    Pack sum = load(dx + (t + e) * stride + i);
    for (int k = 0; k < N; k++) narrow(wide(sum.v[k]) + s[e][k], sum.v[k]);
    store(out + (i64)(t + e) * width + i, sum);
  }
}

// The sum over tokens of u[t, j] x[t, i] for R values of j and the block's 8 N columns i. Rows of x are `stride` values apart, those of u
// `by`. Threads are (8, 32): each works on N columns and every 32nd token. Written as [j, i], or with `turned` as [i, j].
__device__ inline void outer(const T* __restrict__ x, i64 stride, int width, const T* __restrict__ u, int by, int tokens,
                             T* __restrict__ out, bool turned) {
  constexpr int COLUMNS = 8 * N;
  int i = blockIdx.x * COLUMNS + threadIdx.x * N;
  float s[R * N] = {};
  if (i < width) {
#pragma unroll 4
    for (int t = threadIdx.y; t < tokens; t += 32) {
      Pack p = load(x + t * stride + i);
      for (int j = 0; j < R; j += N) {
        Pack q = load(u + (i64)t * by + j);
        for (int l = 0; l < N; l++) for (int k = 0; k < N; k++) s[(j + l) * N + k] += wide(q.v[l]) * wide(p.v[k]);
      }
    }
  }
  // The lanes of a warp are 8 packs of columns of 4 tokens.
  __shared__ float sums[8][8][R * N + 1];
  int thread = threadIdx.y * 8 + threadIdx.x, first = 0;
  fold<R * N, 16, 8>(s, first, thread);
  for (int k = 0; k < R * N / 4; k++) sums[thread / 32][threadIdx.x][first + k] = s[k];
  __syncthreads();
  for (int v = thread; v < COLUMNS * R; v += 256) {
    int c = turned ? v / R : v % COLUMNS, j = turned ? v % R : v / COLUMNS, at = blockIdx.x * COLUMNS + c;
    if (at >= width) continue;
    float sum = 0;
    for (int w = 0; w < 8; w++) sum += sums[w][c / N][j * N + c % N];
    narrow(sum, turned ? out[(i64)at * R + j] : out[(i64)j * width + at]);
  }
}

// da[p R + j, i] = sum over t of du[t, p R + j] x[t, i]; blockIdx.y is the part p.
extern "C" __global__ void __launch_bounds__(256)
grad_a(const T* x, const T* du, T* da, int width, int by, int tokens, i64 stride) {
  outer(x, stride, width, du + blockIdx.y * R, by, tokens, da + (i64)blockIdx.y * R * width, false);
}

// db_p[i, j] = sum over t of grad[t, start_p + i] u[t, p R + j]; blockIdx.y is the part p.
extern "C" __global__ void __launch_bounds__(256)
grad_b(const T* grad, const T* u, const __grid_constant__ Parts<T> parts, const __grid_constant__ Outs<T> outs, int tokens, i64 stride) {
  int p = blockIdx.y;
  if ((int)(blockIdx.x * 8 * N) >= parts.width[p]) return;
  outer(grad + parts.start[p], stride, parts.width[p], u + p * R, parts.count * R, tokens, outs.b[p], true);
}
