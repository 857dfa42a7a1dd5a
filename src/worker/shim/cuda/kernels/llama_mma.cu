// Products with the adapters' narrow matrices on tensor cores, for fp16 and bf16; compiled together with swiglu.cu. The macro MMA is the
// type's name in instructions. Ranks are 8 or 16. Operands are loaded 16 bytes at a time, which is possible because the order of a sum's
// terms is free: thread 4 g + q of a warp holds the values 8 q to 8 q + 7 of a range of 32 values in row g. Its word m, the values 8 q +
// 2 m and 8 q + 2 m + 1, is its part of tile m. So tile m has the columns 8 q + 2 m + e (q = 0..3, e = 0, 1) of the 32.
#include "swiglu.cu"

struct Words { u32 w[4]; };
__device__ inline Words words(const T* p, bool there) {
  Words x = {};
  if (there) *(uint4*)&x = *(const uint4*)p;
  return x;
}
__device__ inline void store(T* p, const Words& x) { *(uint4*)p = *(const uint4*)&x; }
__device__ inline u32 word(const T* p, bool there) { return there ? *(const u32*)p : 0u; }

// d += A B, with A [16, 16] stored by rows, B [16, 8] by columns.
__device__ inline void mma(float* d, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." MMA "." MMA ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
// The same with A [16, 8] and B [8, 8].
__device__ inline void mma(float* d, u32 a0, u32 a1, u32 b0) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32." MMA "." MMA ".f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a0), "r"(a1), "r"(b0));
}
// Transposes a warp's tile [8, 8]. Each thread has two values of a row.
__device__ inline u32 turned(u32 x) {
  u32 y;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}
union Two16 { u32 word; T v[2]; };
__device__ inline float2 wide2(u32 x) { Two16 two; two.word = x; return make_float2(wide(two.v[0]), wide(two.v[1])); }
__device__ inline u32 narrow2(float x, float y) { Two16 two; narrow(x, two.v[0]); narrow(y, two.v[1]); return two.word; }

// Starts to copy 16 bytes to shared memory, without waiting; writes zeros if `there` is false.
__device__ inline void fetch16(uint4* to, const T* from, bool there) {
  u32 at = (u32)__cvta_generic_to_shared(to), bytes = there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(bytes));
}

struct Lane {
  int g, q, column;   // `column` + 2 m is the column of the 32 that is column (or row) g of tile m
  __device__ Lane() : g((threadIdx.x & 31) >> 2), q(threadIdx.x & 3), column(8 * (g >> 1) + (g & 1)) {}
};

constexpr int WARPS = 16;          // warps in a block that sums over columns
constexpr int STEP = WARPS * 32;   // columns that such a block loads in one step
constexpr int AHEAD = 4;           // steps whose loads run at the same time, which hides their latency

// Adds the [16, 8] values d over a block's warps; put(row, column, sum) writes each sum.
template <class Put> __device__ inline void reduce_tile(const float* d, const Lane& l, Put put) {
  __shared__ float parts[WARPS][16][9];
  int warp = threadIdx.x >> 5;
  for (int e = 0; e < 4; e++) parts[warp][l.g + (e >> 1) * 8][2 * l.q + (e & 1)] = d[e];
  __syncthreads();
  if (threadIdx.x < 128) {
    int row = threadIdx.x & 15, column = threadIdx.x >> 4;
    float sum = 0;
    for (int w = 0; w < WARPS; w++) sum += parts[w][row][column];
    put(row, column, sum);
  }
}

// u[t, j] = scale * sum over i of x[t, i] a[j, i]. blockIdx.x is 8 tokens, blockIdx.y 16 of the `count` rows of a.
extern "C" __global__ void __launch_bounds__(512) mma_down(const T* x, const T* a, T* u, int width, int count, int tokens,
                                                           i64 stride,
                                                           float scale) {
  Lane l;
  int t = blockIdx.x * 8, first = blockIdx.y * 16;
  bool second = first + 8 < count, there = t + l.g < tokens;
  const T *row = x + (i64)(t + l.g) * stride, *rows = a + (i64)(first + l.g) * width;
  float d[4] = {};
  for (int base = (threadIdx.x >> 5) * 32; base < width; base += AHEAD * STEP) {
    Words p[AHEAD], f[AHEAD], s[AHEAD];
    for (int k = 0; k < AHEAD; k++) {
      int i = base + k * STEP + l.q * 8;
      bool in = i < width;
      p[k] = words(row + i, there && in), f[k] = words(rows + i, in), s[k] = words(rows + 8 * (i64)width + i, in && second);
    }
    for (int k = 0; k < AHEAD; k++) {
      mma(d, f[k].w[0], s[k].w[0], f[k].w[1], s[k].w[1], p[k].w[0], p[k].w[1]);
      mma(d, f[k].w[2], s[k].w[2], f[k].w[3], s[k].w[3], p[k].w[2], p[k].w[3]);
    }
  }
  reduce_tile(d, l, [&](int j, int e, float sum) {
    if (first + j < count && t + e < tokens) narrow(sum * scale, u[(i64)(t + e) * count + first + j]);
  });
}

// du[t, p R + j] = scale * sum over i of grad[t, start_p + i] b_p[i, j]. blockIdx.x is 8 tokens, blockIdx.y the part p.
extern "C" __global__ void __launch_bounds__(512) mma_back(const T* grad, const __grid_constant__ Parts<T> parts, T* du, int tokens,
                                                           i64 stride, float scale) {
  Lane l;
  int p = blockIdx.y, t = blockIdx.x * 8, width = parts.width[p];
  bool there = t + l.g < tokens;
  const T *row = grad + (i64)(t + l.g) * stride + parts.start[p], *b = parts.b[p];
  float d[4] = {};
  for (int base = (threadIdx.x >> 5) * 32; base < width; base += AHEAD * STEP) {
    Words y[AHEAD];
    u32 f[AHEAD][4], s[AHEAD][4];
    for (int k = 0; k < AHEAD; k++) {
      int at = base + k * STEP;
      y[k] = words(row + at + l.q * 8, there && at + l.q * 8 < width);
      for (int m = 0; m < 4; m++) {
        int i = at + l.column + 2 * m;
        const T* from = b + (i64)i * R + 2 * l.q;
        f[k][m] = word(from, i < width);
        s[k][m] = R == 16 ? word(from + 8, i < width) : 0;
      }
    }
    for (int k = 0; k < AHEAD; k++) {
      for (int m = 0; m < 4; m++) f[k][m] = turned(f[k][m]), s[k][m] = R == 16 ? turned(s[k][m]) : 0;
      mma(d, f[k][0], s[k][0], f[k][1], s[k][1], y[k].w[0], y[k].w[1]);
      mma(d, f[k][2], s[k][2], f[k][3], s[k][3], y[k].w[2], y[k].w[3]);
    }
  }
  reduce_tile(d, l, [&](int j, int e, float sum) {
    if (j < R && t + e < tokens) narrow(sum * scale, du[(i64)(t + e) * parts.count * R + p * R + j]);
  });
}

// ---------- sums over tokens ----------

// Adds the tiles d[4][4] over a block's warps: `rows` ranks by 32 columns from blockIdx.x * 32. Written as out[j, i] with rows of `width`
// values, or with `across` as out[i, j] with rows of R values.
typedef float StripeParts[TOKEN_WARPS][16][33];
__device__ inline void reduce_stripe(StripeParts& parts, const float d[4][4], const Lane& l, int rows, int width, T* out,
                                     bool across) {
  __syncthreads();
  for (int m = 0; m < 4; m++) {
    for (int e = 0; e < 4; e++) parts[threadIdx.x >> 5][l.g + (e >> 1) * 8][8 * l.q + 2 * m + (e & 1)] = d[m][e];
  }
  __syncthreads();
  for (int at = threadIdx.x; at < rows * 32; at += TOKEN_WARPS * 32) {
    int j = across ? at % rows : at / 32, c = across ? at / rows : at % 32, i = blockIdx.x * 32 + c;
    float sum = 0;
    for (int w = 0; w < TOKEN_WARPS; w++) sum += parts[w][j][c];
    if (i < width) narrow(sum, across ? out[(i64)i * R + j] : out[(i64)j * width + i]);
  }
}

// Computes several sums over tokens; blockIdx.y is the index of the sum, blockIdx.x a range of 32 columns.
extern "C" __global__ void __launch_bounds__(256) mma_outer(const __grid_constant__ Outers<T> outers, int tokens) {
  const Outer<T>& o = outers.each[blockIdx.y];
  if ((int)blockIdx.x * 32 >= o.width) return;
  Lane l;
  int i = blockIdx.x * 32 + l.q * 8;
  bool in = i < o.width, both = o.rows > 8;
  float d[4][4] = {};
#pragma unroll 2
  for (int t = (threadIdx.x >> 5) * 16; t < tokens; t += TOKEN_WARPS * 16) {
    int first = t + l.g, second = first + 8;
    Words x = words(o.x + first * o.stride + i, in && first < tokens), y = words(o.x + second * o.stride + i,
                    in && second < tokens);
    const T *v = o.w + (i64)first * o.by + 2 * l.q, *w = v + 8 * (i64)o.by;
    u32 a0 = turned(word(v, first < tokens)), a2 = turned(word(w, second < tokens));
    u32 a1 = turned(word(v + 8, both && first < tokens)), a3 = turned(word(w + 8, both && second < tokens));
    for (int m = 0; m < 4; m++) mma(d[m], a0, a1, a2, a3, turned(x.w[m]), turned(y.w[m]));
  }
  __shared__ StripeParts parts;
  reduce_stripe(parts, d, l, o.rows, o.width, o.out, o.across);
}

// ---------- adapters' part of products ----------

// A part of the operand B for u B^T: 32 columns of the product from a matrix B [width, R], for tiles m and halves h of the rank.
struct Across {
  u32 b[4][R / 8];
  __device__ Across(const T* matrix, const Lane& l, int i, int width) {
    for (int m = 0; m < 4; m++) {
      int column = i + l.column + 2 * m;
      for (int h = 0; h < R / 8; h++) b[m][h] = word(matrix + (i64)column * R + 8 * h + 2 * l.q, column < width);
    }
  }
};
// Two rows of u, R values each, eight rows apart.
struct Rows {
  u32 first[R / 8], second[R / 8];
  __device__ Rows(const T* u, i64 stride, const Lane& l, int t, int tokens) {
    for (int h = 0; h < R / 8; h++) {
      first[h] = word(u + (i64)(t + l.g) * stride + 8 * h + 2 * l.q, t + l.g < tokens);
      second[h] = word(u + (i64)(t + l.g + 8) * stride + 8 * h + 2 * l.q, t + l.g + 8 < tokens);
    }
  }
};
// Converts a tile's values of two rows to fp32.
__device__ inline void tile(float* d, u32 first, u32 second) {
  float2 x = wide2(first), y = wide2(second);
  d[0] = x.x, d[1] = x.y, d[2] = y.x, d[3] = y.y;
}
// The same, plus the product u B^T.
__device__ inline void sum_tile(float* d, u32 first, u32 second, const Rows& u, const Across& b, int m) {
  tile(d, first, second);
  for (int h = 0; h < R / 8; h++) mma(d, u.first[h], u.second[h], b.b[m][h]);
}

// Like `add_up`. blockIdx.x is 32 columns, blockIdx.y 8 times 16 tokens, blockIdx.z the part.
extern "C" __global__ void __launch_bounds__(256)
mma_add_up(T* __restrict__ y, const T* __restrict__ u, const T* __restrict__ more, const __grid_constant__ Parts<T> parts,
           int tokens, i64 stride) {
  Lane l;
  int p = blockIdx.z, t = (blockIdx.y * TOKEN_WARPS + (threadIdx.x >> 5)) * 16, base = blockIdx.x * 32, i = base + l.q * 8;
  if (base >= parts.width[p] || t >= tokens) return;
  bool first = i < parts.width[p] && t + l.g < tokens, second = i < parts.width[p] && t + l.g + 8 < tokens;
  i64 at = (t + l.g) * stride + parts.start[p] + i, next = at + 8 * stride;
  Words a = words(y + at, first), b = words(y + next, second), c = {}, d = {};
  if (more) c = words(more + at, first), d = words(more + next, second);
  Rows rows(u + p * R, parts.count * R, l, t, tokens);
  Across across(parts.b[p], l, base, parts.width[p]);
  for (int m = 0; m < 4; m++) {
    float sum[4], plus[4];
    sum_tile(sum, a.w[m], b.w[m], rows, across, m);
    tile(plus, c.w[m], d.w[m]);
    a.w[m] = narrow2(sum[0] + plus[0], sum[1] + plus[1]);
    b.w[m] = narrow2(sum[2] + plus[2], sum[3] + plus[3]);
  }
  if (first) store(y + at, a);
  if (second) store(y + next, b);
}

// Like `add_back`. blockIdx.x is 32 columns, blockIdx.y 8 times 16 tokens.
extern "C" __global__ void __launch_bounds__(256)
mma_add_back(const T* dx, const T* du, const T* a, T* out, int width, int count, int tokens, i64 stride, i64 by) {
  Lane l;
  int t = (blockIdx.y * TOKEN_WARPS + (threadIdx.x >> 5)) * 16, i = blockIdx.x * 32 + l.q * 8;
  if (t >= tokens) return;
  bool in = i < width, first = in && t + l.g < tokens, second = in && t + l.g + 8 < tokens;
  const T* from_dx = dx + (t + l.g) * stride + i;
  Words x = words(from_dx, first), y = words(from_dx + 8 * stride, second);
  float d[4][4];
  for (int m = 0; m < 4; m++) tile(d[m], x.w[m], y.w[m]);
  for (int j = 0; j < count; j += 8) {
    Words rows = words(a + (i64)(j + l.g) * width + i, in);
    const T* from = du + (t + l.g) * by + j + 2 * l.q;
    u32 f = word(from, t + l.g < tokens), s = word(from + 8 * by, t + l.g + 8 < tokens);
    for (int m = 0; m < 4; m++) mma(d[m], f, s, turned(rows.w[m]));
  }
  for (int m = 0; m < 4; m++) x.w[m] = narrow2(d[m][0], d[m][1]), y.w[m] = narrow2(d[m][2], d[m][3]);
  T* to = out + (i64)(t + l.g) * width + i;
  if (first) store(to, x);
  if (second) store(to + (i64)8 * width, y);
}

// Like `add_up_turn` without `repeated`, if half a head is a multiple of 32. blockIdx.x is 32 columns of the first halves of heads,
// together with the columns that are rotated with them; blockIdx.y is 8 times 16 tokens.
extern "C" __global__ void __launch_bounds__(256)
mma_add_up_turn(T* rows, const T* u, const __grid_constant__ Parts<T> parts, const float* cos, const float* sin, const i64* positions,
                T* repeated, int heads, int kv_heads, int half, int tokens) {
  Lane l;
  int t = (blockIdx.y * TOKEN_WARPS + (threadIdx.x >> 5)) * 16, pair = blockIdx.x * 32, head = pair / half, inside = pair % half;
  if (t >= tokens) return;
  int base = head * 2 * half + inside;
  i64 width = (i64)(heads + 2 * kv_heads) * 2 * half;
  bool first = t + l.g < tokens, second = t + l.g + 8 < tokens;
  T *row = rows + (t + l.g) * width + base + l.q * 8, *next = row + 8 * width;
  Words a0 = words(row, first), a1 = words(next, second), b0 = words(row + half, first), b1 = words(next + half, second);
  float a[4][4], b[4][4];
  for (int m = 0; m < 4; m++) tile(a[m], a0.w[m], a1.w[m]), tile(b[m], b0.w[m], b1.w[m]);
  for (int p = 0; p < parts.count; p++) {
    int start = base - parts.start[p];
    if (start < 0 || start >= parts.width[p]) continue;
    Rows by(u + p * R, parts.count * R, l, t, tokens);
    Across to_a(parts.b[p], l, start, parts.width[p]), to_b(parts.b[p], l, start + half, parts.width[p]);
    for (int m = 0; m < 4; m++) {
      for (int h = 0; h < R / 8; h++) {
        mma(a[m], by.first[h], by.second[h], to_a.b[m][h]);
        mma(b[m], by.first[h], by.second[h], to_b.b[m][h]);
      }
    }
  }
  if (head < heads + kv_heads) {
    i64 from[2] = {first ? positions[t + l.g] : 0, second ? positions[t + l.g + 8] : 0};
    for (int m = 0; m < 4; m++) {
      for (int e = 0; e < 4; e++) {
        i64 table = from[e >> 1] * half + inside + l.q * 8 + 2 * m + (e & 1);
        float c = cos[table], s = sin[table], x = a[m][e], y = b[m][e];
        a[m][e] = x * c - y * s;
        b[m][e] = y * c + x * s;
      }
    }
  }
  for (int m = 0; m < 4; m++) {
    a0.w[m] = narrow2(a[m][0], a[m][1]), a1.w[m] = narrow2(a[m][2], a[m][3]);
    b0.w[m] = narrow2(b[m][0], b[m][1]), b1.w[m] = narrow2(b[m][2], b[m][3]);
  }
  if (first) store(row, a0), store(row + half, b0);
  if (second) store(next, a1), store(next + half, b1);
}

// The sum of a token's values over the lanes and warps of a block that works on eight tokens.
__device__ inline float token_sum(float x, const Lane& l) {
  __shared__ float parts[WARPS][8];
  x += __shfl_xor_sync(0xffffffff, x, 1);
  x += __shfl_xor_sync(0xffffffff, x, 2);
  if (l.q == 0) parts[threadIdx.x >> 5][l.g] = x;
  __syncthreads();
  float sum = 0;
  for (int w = 0; w < WARPS; w++) sum += parts[w][l.g];
  return sum;
}

// Like `add_up_norm`. A block works on eight tokens.
extern "C" __global__ void __launch_bounds__(512)
mma_add_up_norm(T* __restrict__ y, const T* __restrict__ u, const T* __restrict__ more, const __grid_constant__ Parts<T> parts,
                const T* __restrict__ weight, T* __restrict__ normed, float* __restrict__ inverse,
                int tokens, int dim, float epsilon) {
  Lane l;
  int t = blockIdx.x * 8 + l.g;
  bool there = t < tokens;
  i64 row = (i64)t * dim;
  float squares = 0;
  u32 by[R / 8];
  for (int h = 0; h < R / 8; h++) by[h] = word(u + (i64)t * R + 8 * h + 2 * l.q, there);
  for (int base = (threadIdx.x >> 5) * 32; base < dim; base += AHEAD * STEP) {
    Words a[AHEAD], b[AHEAD];
    u32 across[AHEAD][4][R / 8];
    for (int k = 0; k < AHEAD; k++) {
      int i = base + k * STEP + l.q * 8, column = base + k * STEP + l.column;
      a[k] = words(y + row + i, there && i < dim), b[k] = words(more + row + i, there && i < dim);
      for (int m = 0; m < 4; m++) {
        const T* from = parts.b[0] + (i64)(column + 2 * m) * R + 2 * l.q;
        for (int h = 0; h < R / 8; h++) across[k][m][h] = word(from + 8 * h, column + 2 * m < dim);
      }
    }
    for (int k = 0; k < AHEAD; k++) {
      int i = base + k * STEP + l.q * 8;
      for (int m = 0; m < 4; m++) {
        float2 x = wide2(a[k].w[m]), z = wide2(b[k].w[m]);
        float d[4] = {x.x + z.x, x.y + z.y, 0, 0};
        for (int h = 0; h < R / 8; h++) mma(d, by[h], 0, across[k][m][h]);
        a[k].w[m] = narrow2(d[0], d[1]);
        x = wide2(a[k].w[m]);
        squares += x.x * x.x + x.y * x.y;
      }
      if (there && i < dim) store(y + row + i, a[k]);
    }
  }
  float r = rsqrtf(token_sum(squares, l) / dim + epsilon);
  if (threadIdx.x < 32 && l.q == 0 && there) inverse[t] = r;
#pragma unroll 4
  for (int i = (threadIdx.x >> 5) * 32 + l.q * 8; i < dim; i += WARPS * 32) {
    if (!there) break;
    Words a = words(y + row + i, true), w = words(weight + i, true);
    for (int m = 0; m < 4; m++) {
      float2 x = wide2(a.w[m]), z = wide2(w.w[m]);
      a.w[m] = narrow2(x.x * r * z.x, x.y * r * z.y);
    }
    store(normed + row + i, a);
  }
}

// Like `rms_norm_backward`, with adapters. A block works on eight tokens.
extern "C" __global__ void __launch_bounds__(512)
mma_rms_norm_backward(T* __restrict__ grad, const T* __restrict__ x, const T* __restrict__ weight,
                      const float* __restrict__ inverse, const T* __restrict__ more, const T* __restrict__ du,
                      const T* __restrict__ a, T* __restrict__ dx, int dim,
                      int count, int tokens, i64 stride, i64 by) {
  Lane l;
  int t = blockIdx.x * 8 + l.g;
  bool there = t < tokens;
  i64 row = (i64)t * dim;
  T* of_grad = grad + t * stride;
  float dot = 0;
  for (int base = (threadIdx.x >> 5) * 32; base < dim; base += AHEAD * STEP) {
    Words g[AHEAD], v[AHEAD], w[AHEAD];
    float d[AHEAD][4][4];
    for (int k = 0; k < AHEAD; k++) {
      int i = base + k * STEP + l.q * 8;
      g[k] = words(of_grad + i, there && i < dim), v[k] = words(x + row + i, there && i < dim), w[k] = words(weight + i,
                   i < dim);
    }
    for (int k = 0; k < AHEAD; k++) for (int m = 0; m < 4; m++) tile(d[k][m], g[k].w[m], 0);
    for (int j = 0; j < count; j += 8) {
      Words rows[AHEAD];
      for (int k = 0; k < AHEAD; k++) {
        int i = base + k * STEP + l.q * 8;
        rows[k] = words(a + (i64)(j + l.g) * dim + i, i < dim);
      }
      u32 factor = word(du + t * by + j + 2 * l.q, there);
      for (int k = 0; k < AHEAD; k++) for (int m = 0; m < 4; m++) mma(d[k][m], factor, 0, turned(rows[k].w[m]));
    }
    for (int k = 0; k < AHEAD; k++) {
      int i = base + k * STEP + l.q * 8;
      for (int m = 0; m < 4; m++) {
        g[k].w[m] = narrow2(d[k][m][0], d[k][m][1]);
        float2 p = wide2(g[k].w[m]), q = wide2(w[k].w[m]), z = wide2(v[k].w[m]);
        dot += p.x * q.x * z.x + p.y * q.y * z.y;
      }
      if (there && i < dim) store(of_grad + i, g[k]);
    }
  }
  float r = there ? inverse[t] : 0, c = token_sum(dot, l) * r * r * r / dim;
#pragma unroll 4
  for (int i = (threadIdx.x >> 5) * 32 + l.q * 8; i < dim; i += WARPS * 32) {
    if (!there) break;
    Words g = words(of_grad + i, true), v = words(x + row + i, true), w = words(weight + i, true), k = {};
    if (more) k = words(more + row + i, true);
    for (int m = 0; m < 4; m++) {
      float2 p = wide2(g.w[m]), q = wide2(w.w[m]), z = wide2(v.w[m]), n = wide2(k.w[m]);
      g.w[m] = narrow2(p.x * q.x * r - c * z.x + n.x, p.y * q.y * r - c * z.y + n.y);
    }
    store(dx + row + i, g);
  }
}

// ---------- the feed-forward network ----------

// silu(gate) up of rows [gate | up] + u B^T. blockIdx.x is 32 columns of both gate and up.
extern "C" __global__ void __launch_bounds__(256) mma_swiglu(const T* __restrict__ gates, const T* __restrict__ u,
    T* __restrict__ y, const __grid_constant__ Parts<T> parts, int tokens, int width) {
  Lane l;
  int i = blockIdx.x * 32 + l.q * 8;
  bool in = i < width;
  Across gate_b(parts.b[0], l, blockIdx.x * 32, width), up_b(parts.b[1], l, blockIdx.x * 32, width);
  for (int t = (threadIdx.x >> 5) * 16; t < tokens; t += TOKEN_WARPS * 16) {
    Rows gate_u(u, 2 * R, l, t, tokens), up_u(u + R, 2 * R, l, t, tokens);
    bool first = in && t + l.g < tokens, second = in && t + l.g + 8 < tokens;
    const T *a = gates + (i64)(t + l.g) * 2 * width + i, *b = a + (i64)16 * width;
    Words g0 = words(a, first), g1 = words(b, second), u0 = words(a + width, first), u1 = words(b + width, second);
    for (int m = 0; m < 4; m++) {
      float gate[4], above[4];
      sum_tile(gate, g0.w[m], g1.w[m], gate_u, gate_b, m);
      sum_tile(above, u0.w[m], u1.w[m], up_u, up_b, m);
      g0.w[m] = narrow2(silu(gate[0]) * above[0], silu(gate[1]) * above[1]);
      g1.w[m] = narrow2(silu(gate[2]) * above[2], silu(gate[3]) * above[3]);
    }
    T* to = y + (i64)(t + l.g) * width + i;
    if (first) store(to, g0);
    if (second) store(to + (i64)8 * width, g1);
  }
}

// The backward pass through y = silu(gate) up of rows [gate | up] + u B^T, and through the adapter of the layer after y, for which du is
// given. Computes the gradients of the rows, of both B, and of the A [R, width] of the layer after y. blockIdx.x is 32 columns of gate
// and of up. One block works on all tokens, so that it can also sum over tokens. Rows of grad are `stride` values apart, those of du `by`.
extern "C" __global__ void __launch_bounds__(256, 2)
mma_swiglu_backward(const T* grad, const T* gates, const T* u, const __grid_constant__ Parts<T> parts, const T* du, const T* a,
                    T* dgates, T* da, T* db_gate,
                    T* db_up, int tokens, int width, i64 stride, i64 by) {
  Lane l;
  int i = blockIdx.x * 32 + l.q * 8, warp = threadIdx.x >> 5;
  bool in = i < width;
  // The next values of a thread are loaded while it works on the current ones.
  __shared__ uint4 fetched[2][6][TOKEN_WARPS * 32];
  auto fetch = [&](int slot, int t) {
    for (int second = 0; second < 2; second++) {
      int token = t + l.g + 8 * second;
      bool there = in && token < tokens;
      const T *dy = grad + (there ? token * stride + i : 0), *gate = gates + (there ? (i64)token * 2 * width + i : 0);
      fetch16(&fetched[slot][second][threadIdx.x], dy, there);
      fetch16(&fetched[slot][2 + second][threadIdx.x], gate, there);
      fetch16(&fetched[slot][4 + second][threadIdx.x], there ? gate + width : gate, there);
    }
    asm volatile("cp.async.commit_group;");
  };
  fetch(0, warp * 16);
  Across gate_b(parts.b[0], l, blockIdx.x * 32, width), up_b(parts.b[1], l, blockIdx.x * 32, width);
  // A, stored by columns.
  u32 a_b[4][R / 8];
  for (int h = 0; h < R / 8; h++) {
    Words rows = words(a + (i64)(8 * h + l.g) * width + i, in);
    for (int m = 0; m < 4; m++) a_b[m][h] = turned(rows.w[m]);
  }
  float sum_a[4][4] = {}, sum_gate[4][4] = {}, sum_up[4][4] = {};
  for (int t = warp * 16, slot = 0; t < tokens; t += TOKEN_WARPS * 16, slot ^= 1) {
    fetch(slot ^ 1, t + TOKEN_WARPS * 16);
    Rows gate_u(u, 2 * R, l, t, tokens), up_u(u + R, 2 * R, l, t, tokens), below(du, by, l, t, tokens);
    u32 f_gate[R / 8], s_gate[R / 8], f_up[R / 8], s_up[R / 8], f_below[R / 8], s_below[R / 8];
    for (int h = 0; h < R / 8; h++) {
      f_gate[h] = turned(gate_u.first[h]), s_gate[h] = turned(gate_u.second[h]);
      f_up[h] = turned(up_u.first[h]), s_up[h] = turned(up_u.second[h]);
      f_below[h] = turned(below.first[h]), s_below[h] = turned(below.second[h]);
    }
    asm volatile("cp.async.wait_group 1;");
    Words mine[6];
    for (int k = 0; k < 6; k++) *(uint4*)&mine[k] = fetched[slot][k][threadIdx.x];
    auto &d0 = mine[0], &d1 = mine[1], &g0 = mine[2], &g1 = mine[3], &u0 = mine[4], &u1 = mine[5];
    constexpr int H = R / 8 - 1;
    for (int m = 0; m < 4; m++) {
      float gate[4], above[4], d[4], dgate[4], dup[4];
      sum_tile(gate, g0.w[m], g1.w[m], gate_u, gate_b, m);
      sum_tile(above, u0.w[m], u1.w[m], up_u, up_b, m);
      tile(d, d0.w[m], d1.w[m]);
      for (int h = 0; h < R / 8; h++) mma(d, below.first[h], below.second[h], a_b[m][h]);
      for (int e = 0; e < 4; e++) {
        silu_backward(d[e], gate[e], above[e], dgate[e], dup[e]);
        above[e] *= silu(gate[e]);
      }
      g0.w[m] = narrow2(dgate[0], dgate[1]), g1.w[m] = narrow2(dgate[2], dgate[3]);
      u0.w[m] = narrow2(dup[0], dup[1]), u1.w[m] = narrow2(dup[2], dup[3]);
      u32 y0 = narrow2(above[0], above[1]), y1 = narrow2(above[2], above[3]);
      mma(sum_a[m], f_below[0], H ? f_below[H] : 0, s_below[0], H ? s_below[H] : 0, turned(y0), turned(y1));
      mma(sum_gate[m], f_gate[0], H ? f_gate[H] : 0, s_gate[0], H ? s_gate[H] : 0, turned(g0.w[m]), turned(g1.w[m]));
      mma(sum_up[m], f_up[0], H ? f_up[H] : 0, s_up[0], H ? s_up[H] : 0, turned(u0.w[m]), turned(u1.w[m]));
    }
    T* to = dgates + (i64)(t + l.g) * 2 * width + i;
    if (in && t + l.g < tokens) store(to, g0), store(to + width, u0);
    to += (i64)16 * width;
    if (in && t + l.g + 8 < tokens) store(to, g1), store(to + width, u1);
  }
  asm volatile("cp.async.wait_all;");
  auto& shared = *reinterpret_cast<StripeParts*>(fetched);
  reduce_stripe(shared, sum_a, l, R, width, da, false);
  reduce_stripe(shared, sum_gate, l, R, width, db_gate, true);
  reduce_stripe(shared, sum_up, l, R, width, db_up, true);
}
