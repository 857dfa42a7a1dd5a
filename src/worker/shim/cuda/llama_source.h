// The source of the fused kernels of a Llama block, compiled by NVRTC for the GPU at hand. T is the type of activations, R the
// rank of adapters; all arithmetic is in fp32. A row is a token; one block of threads works on one row unless said otherwise.
#pragma once

static const char* const LLAMA_SOURCE = R"CUDA(
typedef long long i64;
typedef unsigned short u16;
typedef unsigned int u32;

struct bf16 { u16 bits; };
struct fp16 { u16 bits; };

__device__ inline float wide(float x) { return x; }
__device__ inline float wide(bf16 x) { return __uint_as_float((u32)x.bits << 16); }
__device__ inline float wide(fp16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y; }
__device__ inline void narrow(float x, float& y) { y = x; }
__device__ inline void narrow(float x, bf16& y) {
  u32 u = __float_as_uint(x);
  y.bits = (u & 0x7fffffff) > 0x7f800000 ? 0x7fff : (u16)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}
__device__ inline void narrow(float x, fp16& y) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); }

typedef TYPE T;
constexpr int R = RANK;

// 16 bytes of a row at once.
constexpr int N = 16 / sizeof(T);
struct alignas(16) Pack { T v[N]; };
__device__ inline Pack load(const T* p) { return *(const Pack*)p; }
__device__ inline void store(T* p, const Pack& x) { *(Pack*)p = x; }

// The sum of a block's values, in all its threads.
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

// A row's loss; its logits become their gradient.
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
  // The greatest value and the sum of exponents relative to it, in one pass.
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

// Each warp's sums of `count` values, added up over the block and written by `put`. Blocks have 8 warps.
template <int COUNT, class Put> __device__ inline void reduce(float* sums, Put put) {
  __shared__ float parts[COUNT][8];
  for (int j = 0; j < COUNT; j++) {
    float s = sums[j];
    for (int m = 16; m > 0; m >>= 1) s += __shfl_xor_sync(0xffffffff, s, m);
    if ((threadIdx.x & 31) == 0) parts[j][threadIdx.x >> 5] = s;
  }
  __syncthreads();
  if (threadIdx.x < COUNT) {
    float s = 0;
    for (int w = 0; w < 8; w++) s += parts[threadIdx.x][w];
    put(threadIdx.x, s);
  }
}

constexpr int PAIR = 2;               // tokens that a block of a norm or of `down` works on
constexpr int SUMS = 4;               // tokens that a block of `back` works on
constexpr int MANY = 4;               // tokens that a thread adds to at a time

// u[t, j] = scale * sum over i of x[t, i] a[j, i], for `count` rows of a in groups of R: blockIdx.y is the group, blockIdx.x two tokens.
extern "C" __global__ void down(const T* x, const T* a, T* u, int width, int count, int tokens, i64 stride, float scale) {
  int t = blockIdx.x * PAIR;
  const T* rows = a + (i64)blockIdx.y * R * width;
  float sums[PAIR * R];
  for (int j = 0; j < PAIR * R; j++) sums[j] = 0;
  for (int i = threadIdx.x * N; i < width; i += 256 * N) {
    Pack p[PAIR];
    for (int e = 0; e < PAIR; e++) p[e] = load(x + (i64)min(t + e, tokens - 1) * stride + i);
    for (int j = 0; j < R; j++) {
      Pack q = load(rows + (i64)j * width + i);
      for (int e = 0; e < PAIR; e++) for (int k = 0; k < N; k++) sums[e * R + j] += wide(p[e].v[k]) * wide(q.v[k]);
    }
  }
  reduce<PAIR * R>(sums, [&](int at, float s) {
    int e = at / R, j = at % R;
    if (t + e < tokens) narrow(s * scale, u[(i64)(t + e) * count + blockIdx.y * R + j]);
  });
}

struct Parts { const T* b[4]; int start[4]; int width[4]; int count; };

// du[t, p R + j] = scale * sum over i of grad[t, start_p + i] b_p[i, j]; blockIdx.y is the part p, blockIdx.x four tokens.
extern "C" __global__ void back(const T* grad, const __grid_constant__ Parts parts, T* du, int tokens, i64 stride, float scale) {
  int p = blockIdx.y, t = blockIdx.x * SUMS;
  const T* rows = grad + parts.start[p];
  float sums[SUMS * R];
  for (int j = 0; j < SUMS * R; j++) sums[j] = 0;
  for (int i = threadIdx.x * N; i < parts.width[p]; i += 256 * N) {
    Pack g[SUMS];
    for (int e = 0; e < SUMS; e++) g[e] = load(rows + (i64)min(t + e, tokens - 1) * stride + i);
    for (int l = 0; l < N; l++) {
      for (int j = 0; j < R; j += N) {
        Pack q = load(parts.b[p] + (i64)(i + l) * R + j);
        for (int k = 0; k < N; k++) {
          for (int e = 0; e < SUMS; e++) sums[e * R + j + k] += wide(g[e].v[l]) * wide(q.v[k]);
        }
      }
    }
  }
  reduce<SUMS * R>(sums, [&](int at, float s) {
    int e = at / R, j = at % R;
    if (t + e < tokens) narrow(s * scale, du[(i64)(t + e) * parts.count * R + p * R + j]);
  });
}

// The N values from i of u_t B_p^T for E tokens t.
template <int E> __device__ inline void up(const T* u, const Parts& parts, int p, int t, int i, int tokens, float s[E][N]) {
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

// The N values from i of du_t A for E tokens t; A has `count` rows.
template <int E>
__device__ inline void down_again(const T* du, const T* a, int t, int i, int width, int count, int tokens, float s[E][N]) {
  for (int e = 0; e < E; e++) for (int k = 0; k < N; k++) s[e][k] = 0;
  for (int j = 0; j < count; j++) {
    Pack q = load(a + (i64)j * width + i);
    for (int e = 0; e < E; e++) {
      float f = wide(du[(i64)min(t + e, tokens - 1) * count + j]);
      for (int k = 0; k < N; k++) s[e][k] += f * wide(q.v[k]);
    }
  }
}

// y[t, start_p + i] += more[t, start_p + i] (where there is more) + sum over j of u[t, p R + j] b_p[i, j]; blockIdx.y is the part p,
// blockIdx.z a stretch of its columns, blockIdx.x MANY tokens.
extern "C" __global__ void add_up(T* __restrict__ y, const T* __restrict__ u, const T* __restrict__ more,
                                  const __grid_constant__ Parts parts, int tokens, i64 stride) {
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

// y = more + y + u B^T of rows that one part covers, and RMSNorm of that. A block works on two tokens.
extern "C" __global__ void add_up_norm(T* __restrict__ y, const T* __restrict__ u, const T* __restrict__ more,
                                       const __grid_constant__ Parts parts, const T* __restrict__ weight, T* __restrict__ normed,
                                       float* __restrict__ inverse,
                                       int tokens, int dim, float epsilon) {
  int t = blockIdx.x * PAIR;
  float squares[PAIR] = {};
  for (int i = threadIdx.x * N; i < dim; i += blockDim.x * N) {
    float s[PAIR][N] = {};
    if (parts.count) up<PAIR>(u, parts, 0, t, i, tokens, s);
    for (int e = 0; e < PAIR && t + e < tokens; e++) {
      i64 at = (i64)(t + e) * dim + i;
      Pack out = load(y + at), m = load(more + at);
      for (int k = 0; k < N; k++) {
        narrow(wide(out.v[k]) + s[e][k] + wide(m.v[k]), out.v[k]);
        squares[e] += wide(out.v[k]) * wide(out.v[k]);
      }
      store(y + at, out);
    }
  }
  for (int e = 0; e < PAIR && t + e < tokens; e++) {
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

// The gradient of x of RMSNorm, where that of its output is grad + du A (grad alone without du), plus `more` where there is more.
// A block works on two tokens. `grad` is overwritten.
extern "C" __global__ void rms_norm_backward(T* __restrict__ grad, const T* __restrict__ x, const T* __restrict__ weight,
                                             const float* __restrict__ inverse, const T* __restrict__ more,
                                             const T* __restrict__ du,
                                             const T* __restrict__ a, T* __restrict__ dx, int dim, int count, int tokens) {
  int t = blockIdx.x * PAIR;
  float dot[PAIR] = {};
  for (int i = threadIdx.x * N; i < dim; i += blockDim.x * N) {
    float s[PAIR][N] = {};
    if (du) down_again<PAIR>(du, a, t, i, dim, count, tokens, s);
    Pack w = load(weight + i);
    for (int e = 0; e < PAIR && t + e < tokens; e++) {
      i64 at = (i64)(t + e) * dim + i;
      Pack g = load(grad + at), v = load(x + at);
      for (int k = 0; k < N; k++) {
        if (du) narrow(wide(g.v[k]) + s[e][k], g.v[k]);
        dot[e] += wide(g.v[k]) * wide(w.v[k]) * wide(v.v[k]);
      }
      if (du) store(grad + at, g);
    }
  }
  for (int e = 0; e < PAIR && t + e < tokens; e++) {
    float r = inverse[t + e], c = block_sum(dot[e]) * r * r * r / dim;
    for (int i = threadIdx.x * N; i < dim; i += blockDim.x * N) {
      i64 at = (i64)(t + e) * dim + i;
      Pack g = load(grad + at), v = load(x + at), w = load(weight + i), m;
      if (more) m = load(more + at);
      for (int k = 0; k < N; k++) {
        float d = wide(g.v[k]) * wide(w.v[k]) * r - c * wide(v.v[k]);
        narrow(more ? d + wide(m.v[k]) : d, g.v[k]);
      }
      store(dx + at, g);
    }
  }
}

// Two packs of a head, half a head apart, turned.
__device__ inline void turn(Pack& a, Pack& b, const float* c, const float* s, float sign) {
  for (int k = 0; k < N; k++) {
    float x = wide(a.v[k]), y = wide(b.v[k]);
    narrow(x * c[k] - y * s[k] * sign, a.v[k]);
    narrow(y * c[k] + x * s[k] * sign, b.v[k]);
  }
}

// Rows [q | k | v] += u B^T, then queries and keys (`turned` heads) turned by their positions. A thread works on two packs of a head
// and MANY tokens; blockIdx.y is a stretch of columns.
extern "C" __global__ void add_up_turn(T* __restrict__ rows, const T* __restrict__ u, const __grid_constant__ Parts parts,
                                       const float* __restrict__ cos, const float* __restrict__ sin, const i64* positions,
                                       int heads, int turned, int half, int tokens) {
  int t = blockIdx.x * MANY, at = (blockIdx.y * blockDim.x + threadIdx.x) * N, head = at / half, inside = at % half;
  if (head >= heads) return;
  int width = heads * 2 * half, i = head * 2 * half + inside;
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
    if (head < turned) {
      i64 table = positions[t + e] * half + inside;
      turn(a, b, cos + table, sin + table, 1.0f);
    }
    store(row, a);
    store(row + half, b);
  }
}

// Gradients of turned queries and keys and of values, side by side and turned back; heads of a token lie together in each.
extern "C" __global__ void turn_back(const T* q, const T* k, const T* v, T* rows, const float* cos, const float* sin,
                                     const i64* positions, int heads, int kv_heads, int half, i64 q_stride, i64 k_stride, i64 v_stride) {
  int t = blockIdx.x;
  for (int at = threadIdx.x * N; at < (heads + 2 * kv_heads) * half; at += blockDim.x * N) {
    int head = at / half, inside = at % half;
    const T* from = head < heads ? q + t * q_stride + head * 2 * half
                    : head < heads + kv_heads ? k + t * k_stride + (head - heads) * 2 * half
                                              : v + t * v_stride + (head - heads - kv_heads) * 2 * half;
    Pack a = load(from + inside), b = load(from + inside + half);
    if (head < heads + kv_heads) {
      i64 table = positions[t] * half + inside;
      turn(a, b, cos + table, sin + table, -1.0f);
    }
    T* to = rows + ((i64)t * (heads + 2 * kv_heads) + head) * 2 * half + inside;
    store(to, a);
    store(to + half, b);
  }
}

__device__ inline float silu(float x) { return x / (1 + __expf(-x)); }

// The gradients of gate and up where that of silu(gate) up is dy.
__device__ inline void silu_backward(float dy, float gate, float up, float& dgate, float& dup) {
  float sigmoid = 1 / (1 + __expf(-gate));
  dgate = dy * up * sigmoid * (1 + gate * (1 - sigmoid));
  dup = dy * gate * sigmoid;
}

// The N rows from i of a matrix B, or the N columns from i of a matrix A, in a thread's registers for many tokens.
struct Narrow {
  float v[R][N];
  __device__ void rows(const T* b, int i) {
    for (int k = 0; k < N; k++) {
      for (int j = 0; j < R; j += N) {
        Pack q = load(b + (i64)(i + k) * R + j);
        for (int l = 0; l < N; l++) v[j + l][k] = wide(q.v[l]);
      }
    }
  }
  __device__ void columns(const T* a, int i, int width) {
    for (int j = 0; j < R; j++) {
      Pack q = load(a + (i64)j * width + i);
      for (int k = 0; k < N; k++) v[j][k] = wide(q.v[k]);
    }
  }
  // x plus the product with a row of R values.
  __device__ void add(const Pack& x, const T* u, float sum[N]) const {
    for (int k = 0; k < N; k++) sum[k] = wide(x.v[k]);
    for (int j = 0; j < R; j += N) {
      Pack q = load(u + j);
      for (int l = 0; l < N; l++) for (int k = 0; k < N; k++) sum[k] += wide(q.v[l]) * v[j + l][k];
    }
  }
};

// silu(gate) up of rows [gate | up]. blockIdx.y is a stretch of columns, blockIdx.x `span` tokens.
template <bool ADAPTED>
__device__ inline void swiglu_of(const T* __restrict__ gates, const T* __restrict__ u, T* __restrict__ y, const Parts& parts,
                                 int tokens, int width, int span) {
  int i = (blockIdx.y * blockDim.x + threadIdx.x) * N;
  if (i >= width) return;
  Narrow to_gate, to_up;
  if (ADAPTED) to_gate.rows(parts.b[0], i), to_up.rows(parts.b[1], i);
  // A token's values are on their way while those of the one before are worked on.
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
swiglu(const T* gates, const T* u, T* y, const __grid_constant__ Parts parts, int tokens, int width, int span) {
  swiglu_of<false>(gates, u, y, parts, tokens, width, span);
}
// The same of rows + u B^T, whose parts are gate and up.
extern "C" __global__ void __launch_bounds__(128)
swiglu_adapted(const T* gates, const T* u, T* y, const __grid_constant__ Parts parts, int tokens, int width, int span) {
  swiglu_of<true>(gates, u, y, parts, tokens, width, span);
}

// dx[t, i] += sum over j of du[t, j] a[j, i]; blockIdx.y is a stretch of columns, blockIdx.x MANY tokens.
extern "C" __global__ void add_back(T* dx, const T* du, const T* a, int width, int count, int tokens) {
  int t = blockIdx.x * MANY, i = (blockIdx.y * blockDim.x + threadIdx.x) * N;
  if (i >= width) return;
  float s[MANY][N];
  down_again<MANY>(du, a, t, i, width, count, tokens, s);
  for (int e = 0; e < MANY && t + e < tokens; e++) {
    T* at = dx + (i64)(t + e) * width + i;
    Pack out = load(at);
    for (int k = 0; k < N; k++) narrow(wide(out.v[k]) + s[e][k], out.v[k]);
    store(at, out);
  }
}

// For rows [gate | up] and y = silu(gate) up: their gradient, computed from that of y, and y.
template <bool ADAPTED>
__device__ inline void swiglu_backward_of(const T* __restrict__ grad, const T* __restrict__ gates, const T* __restrict__ u,
                                          const Parts& parts, const T* __restrict__ du, const T* __restrict__ a,
                                          T* __restrict__ dgates, T* __restrict__ y, int tokens, int width, int span) {
  int i = (blockIdx.y * blockDim.x + threadIdx.x) * N;
  if (i >= width) return;
  Narrow to_gate, to_up, below;
  if (ADAPTED) to_gate.rows(parts.b[0], i), to_up.rows(parts.b[1], i), below.columns(a, i, width);
  int first = blockIdx.x * span, end = min(first + span, tokens);
  const T *from = gates + (i64)first * 2 * width + i, *of_y = grad + (i64)first * width + i;
  Pack dy, g, above, next_dy = load(of_y), next = load(from), next_above = load(from + width), out;
  for (int t = first; t < end; t++) {
    i64 at = (i64)t * 2 * width + i, row = (i64)t * width + i;
    dy = next_dy, g = next, above = next_above;
    if (t + 1 < end) {
      from += 2 * width, of_y += width;
      next_dy = load(of_y), next = load(from), next_above = load(from + width);
    }
    float x[N], z[N], d[N];
    if (ADAPTED) {
      to_gate.add(g, u + (i64)t * 2 * R, x);
      to_up.add(above, u + (i64)t * 2 * R + R, z);
      below.add(dy, du + (i64)t * R, d);
    } else {
      for (int k = 0; k < N; k++) x[k] = wide(g.v[k]), z[k] = wide(above.v[k]), d[k] = wide(dy.v[k]);
    }
    for (int k = 0; k < N; k++) {
      float dgate, dup;
      silu_backward(d[k], x[k], z[k], dgate, dup);
      narrow(silu(x[k]) * z[k], out.v[k]);
      narrow(dgate, g.v[k]);
      narrow(dup, above.v[k]);
    }
    store(dgates + at, g);
    store(dgates + at + width, above);
    store(y + row, out);
  }
}
extern "C" __global__ void __launch_bounds__(128)
swiglu_backward(const T* grad, const T* gates, const T* u, const __grid_constant__ Parts parts, const T* du, const T* a,
                T* dgates, T* y,
                int tokens, int width, int span) {
  swiglu_backward_of<false>(grad, gates, u, parts, du, a, dgates, y, tokens, width, span);
}
// The same of rows + u B^T, where the gradient of y is grad + du A.
extern "C" __global__ void __launch_bounds__(128)
swiglu_adapted_backward(const T* grad, const T* gates, const T* u, const __grid_constant__ Parts parts, const T* du, const T* a,
                        T* dgates, T* y, int tokens, int width, int span) {
  swiglu_backward_of<true>(grad, gates, u, parts, du, a, dgates, y, tokens, width, span);
}

struct alignas(2 * sizeof(T)) Two { T v[2]; };

// The sum over tokens of u[t, j] x[t, i] for R values of j and the block's 64 columns i: threads (32, 16), two columns each, where
// threadIdx.y takes every 16th token. Written as [j, i] or, with `turned`, as [i, j].
__device__ inline void outer(const T* x, i64 stride, int width, const T* u, int count, int tokens, T* out, bool turned) {
  int i = (blockIdx.x * 32 + threadIdx.x) * 2;
  float s[R][2];
  for (int j = 0; j < R; j++) s[j][0] = s[j][1] = 0;
  if (i < width) {
#pragma unroll 4
    for (int t = threadIdx.y; t < tokens; t += 16) {
      Two p = *(const Two*)(x + t * stride + i);
      float a = wide(p.v[0]), b = wide(p.v[1]);
      for (int j = 0; j < R; j += N) {
        Pack q = load(u + (i64)t * count + j);
        for (int k = 0; k < N; k++) {
          s[j + k][0] += a * wide(q.v[k]);
          s[j + k][1] += b * wide(q.v[k]);
        }
      }
    }
  }
  __shared__ float parts[16][65];
  for (int j = 0; j < R; j++) {
    __syncthreads();
    parts[threadIdx.y][threadIdx.x * 2] = s[j][0];
    parts[threadIdx.y][threadIdx.x * 2 + 1] = s[j][1];
    __syncthreads();
    int c = threadIdx.y * 32 + threadIdx.x, at = blockIdx.x * 64 + c;
    if (c < 64 && at < width) {
      float sum = 0;
      for (int w = 0; w < 16; w++) sum += parts[w][c];
      narrow(sum, turned ? out[(i64)at * R + j] : out[(i64)j * width + at]);
    }
  }
}

// da[p R + j, i] = sum over t of du[t, p R + j] x[t, i]; blockIdx.y is the part p.
extern "C" __global__ void grad_a(const T* x, const T* du, T* da, int width, int count, int tokens, i64 stride) {
  outer(x, stride, width, du + blockIdx.y * R, count, tokens, da + (i64)blockIdx.y * R * width, false);
}

struct Outs { T* b[4]; };

// db_p[i, j] = sum over t of grad[t, start_p + i] u[t, p R + j]; blockIdx.y is the part p.
extern "C" __global__ void grad_b(const T* grad, const T* u, const __grid_constant__ Parts parts,
                                  const __grid_constant__ Outs outs, int tokens, i64 stride) {
  int p = blockIdx.y;
  if ((int)(blockIdx.x * 64) >= parts.width[p]) return;
  outer(grad + parts.start[p], stride, parts.width[p], u + p * R, parts.count * R, tokens, outs.b[p], true);
}
)CUDA";
