// The source of MobileNetV2's fused kernels, compiled by NVRTC for the GPU at hand. T is the type of activations; all arithmetic is
// in fp32. Activations lie as rows [images * height * width, channels]. What is stored is a convolution's raw output; whoever reads
// it normalises and activates it, with the sums over its rows that stand beside it.
#pragma once

static const char* const MOBILENET_SOURCE = R"CUDA(
typedef long long i64;
typedef unsigned short u16;
typedef unsigned int u32;

struct bf16 { u16 bits; };
struct fp16 { u16 bits; };

__device__ inline float wide(float x) { return x; }
__device__ inline float wide(bf16 x) { return __uint_as_float((u32)x.bits << 16); }
__device__ inline void narrow(float x, float& y) { y = x; }
#ifdef __CUDACC_RTC__
__device__ inline float wide(fp16 x) { float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y; }
__device__ inline void narrow(float x, fp16& y) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); }
#endif
#if __CUDA_ARCH__ >= 800
__device__ inline void narrow(float x, bf16& y) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); }
#else
__device__ inline void narrow(float x, bf16& y) {
  u32 u = __float_as_uint(x);
  y.bits = (u & 0x7fffffff) > 0x7f800000 ? 0x7fff : (u16)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}
#endif

typedef TYPE T;

// C values of a row at once; a pack is 16 bytes.
template <int C> struct alignas(C * sizeof(T)) Values { T v[C]; };
constexpr int N = 16 / sizeof(T);
template <int C = N> __device__ inline Values<C> load(const T* p) { return *(const Values<C>*)p; }
template <int C = N> __device__ inline void store(T* p, const Values<C>& x) { *(Values<C>*)p = x; }

// ---------- batch normalisation ----------

// One layer's: sums over rows of its values and their squares [2, channels], and what normalises.
struct Norm {
  const float *sums, *gamma, *beta;
  float *running_mean, *running_variance;
  float count;
  int channels;
};

struct Affine { float scale, shift, mean, inverse; };

__device__ inline Affine affine(const Norm& norm, int c) {
  float mean = norm.sums[c] / norm.count;
  float variance = fmaxf(norm.sums[norm.channels + c] / norm.count - mean * mean, 0.0f);
  float inverse = rsqrtf(variance + 1e-5f), scale = norm.gamma[c] * inverse;
  return {scale, norm.beta[c] - mean * scale, mean, inverse};
}

// Updates running statistics, as torch.nn.BatchNorm2d with momentum 0.1.
__device__ inline void keep(const Norm& norm, int c) {
  float mean = norm.sums[c] / norm.count;
  float variance = fmaxf(norm.sums[norm.channels + c] / norm.count - mean * mean, 0.0f);
  norm.running_mean[c] += 0.1f * (mean - norm.running_mean[c]);
  norm.running_variance[c] += 0.1f * (variance * norm.count / fmaxf(norm.count - 1, 1.0f) - norm.running_variance[c]);
}

// The gradient of a raw value: a g - b x - c, from g, that of the normalised one, and sums over rows of g and g x [2, channels].
struct Back { float a, b, c; };

__device__ inline Back back(const Norm& norm, const float* grads, int c) {
  Affine f = affine(norm, c);
  float sum = grads[c], cross = (grads[norm.channels + c] - f.mean * sum) / norm.count;
  float b = f.scale * f.inverse * f.inverse * cross;
  return {f.scale, b, f.scale * sum / norm.count - b * f.mean};
}

// The sums over a block's threads of each channel lane's K values, given to put(lane, k, sum) by one thread each.
template <int LANES, int K, class Put> __device__ inline void reduce(float* values, Put put) {
  __shared__ float parts[8][LANES][K];
  int lane = threadIdx.x % LANES, warp = threadIdx.x / 32;
  for (int k = 0; k < K; k++) {
    for (int m = LANES; m < 32; m *= 2) values[k] += __shfl_xor_sync(0xffffffffu, values[k], m);
  }
  if ((threadIdx.x & 31) < LANES) {
    for (int k = 0; k < K; k++) parts[warp][lane][k] = values[k];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < LANES * K; i += 256) {
    float sum = 0;
    for (int w = 0; w < 8; w++) sum += parts[w][i / K][i % K];
    put(i / K, i % K, sum);
  }
}

// ---------- passes over rows ----------

// Blocks of 256 threads: LANES of them side by side along channels, one pack each, and 64 rows at a time.
constexpr int LANES = 4, ROWS = 64;

struct Span {
  int c, row, step;
  bool there;
  __device__ Span(int channels)
      : c((blockIdx.x * LANES + threadIdx.x % LANES) * N), row(blockIdx.y * ROWS + threadIdx.x / LANES), step(gridDim.y * ROWS),
        there(c < channels) {}
};

// The rows of a 3x3 convolution with stride 2 as a matrix [rows, 32]: 27 values by row, column, channel; a one; zeros.
extern "C" __global__ void patches(const void* images, int is_float, i64 of_image, i64 of_channel, i64 of_row, i64 of_column, T* out,
                                   int height, int width, int out_height, int out_width, int rows) {
  constexpr int PACKS = 32 / N;
  int at = blockIdx.x * 256 + threadIdx.x, row = at / PACKS, first = at % PACKS * N;
  if (row >= rows) return;
  int x = row % out_width, y = row / out_width % out_height, image = row / out_width / out_height;
  Values<N> pack;
  for (int k = 0; k < N; k++) {
    int place = first + k, channel = place % 3, column = x * 2 + place / 3 % 3 - 1, line = y * 2 + place / 9 - 1;
    float value = place == 27 ? 1.0f : 0.0f;
    if (place < 27 && column >= 0 && column < width && line >= 0 && line < height) {
      i64 from = image * of_image + channel * of_channel + line * of_row + column * of_column;
      value = is_float ? ((const float*)images)[from] : wide(((const T*)images)[from]);
    }
    narrow(value, pack.v[k]);
  }
  store(out + (i64)row * 32 + first, pack);
}

// relu6(norm(x)).
extern "C" __global__ void activate(const T* x, Norm norm, T* out, int rows) {
  Span s(norm.channels);
  if (!s.there) return;
  float scale[N], shift[N];
  for (int k = 0; k < N; k++) {
    Affine f = affine(norm, s.c + k);
    scale[k] = f.scale / 6;
    shift[k] = f.shift / 6;
    if (blockIdx.y == 0 && threadIdx.x < LANES) keep(norm, s.c + k);
  }
  #pragma unroll 2
  for (int row = s.row; row < rows; row += s.step) {
    i64 at = (i64)row * norm.channels + s.c;
    Values<N> v = load(x + at);
    for (int k = 0; k < N; k++) narrow(6 * __saturatef(fmaf(wide(v.v[k]), scale[k], shift[k])), v.v[k]);
    store(out + at, v);
  }
}

// Adds up values and their squares.
extern "C" __global__ void add_up(const T* x, float* sums, int channels, int rows) {
  Span s(channels);
  float sum[2 * N] = {};
  #pragma unroll 2
  for (int row = s.row; s.there && row < rows; row += s.step) {
    Values<N> v = load(x + (i64)row * channels + s.c);
    for (int k = 0; k < N; k++) {
      float a = wide(v.v[k]);
      sum[k] += a;
      sum[N + k] += a * a;
    }
  }
  reduce<LANES, 2 * N>(sum, [=](int lane, int k, float total) {
    int c = (blockIdx.x * LANES + lane) * N + k % N;
    if (c < channels) atomicAdd(sums + k / N * channels + c, total);
  });
}

// y = norm(x) + more, and its sums.
extern "C" __global__ void normalise(const T* x, Norm norm, const T* more, T* y, float* sums, int rows) {
  Span s(norm.channels);
  float scale[N], shift[N], sum[N] = {};
  for (int k = 0; s.there && k < N; k++) {
    Affine f = affine(norm, s.c + k);
    scale[k] = f.scale;
    shift[k] = f.shift;
    if (blockIdx.y == 0 && threadIdx.x < LANES) keep(norm, s.c + k);
  }
  for (int row = s.row; s.there && row < rows; row += s.step) {
    i64 at = (i64)row * norm.channels + s.c;
    Values<N> v = load(x + at), m;
    if (more) m = load(more + at);
    for (int k = 0; k < N; k++) {
      float value = fmaf(wide(v.v[k]), scale[k], shift[k]);
      if (more) value += wide(m.v[k]);
      narrow(value, v.v[k]);
      sum[k] += wide(v.v[k]);
    }
    store(y + at, v);
  }
  reduce<LANES, N>(sum, [=](int lane, int k, float total) {
    int c = (blockIdx.x * LANES + lane) * N + k;
    if (c < norm.channels) atomicAdd(sums + c, total);
  });
}

// The mean over an image of relu6(norm(x)); blockIdx.y is the image.
extern "C" __global__ void pool(const T* x, Norm norm, T* out, int area) {
  Span s(norm.channels);
  float scale[N], shift[N], sum[N] = {};
  for (int k = 0; s.there && k < N; k++) {
    Affine f = affine(norm, s.c + k);
    scale[k] = f.scale / 6;
    shift[k] = f.shift / 6;
    if (blockIdx.y == 0 && threadIdx.x < LANES) keep(norm, s.c + k);
  }
  for (int row = threadIdx.x / LANES; s.there && row < area; row += ROWS) {
    Values<N> v = load(x + ((i64)blockIdx.y * area + row) * norm.channels + s.c);
    for (int k = 0; k < N; k++) sum[k] += __saturatef(fmaf(wide(v.v[k]), scale[k], shift[k]));
  }
  reduce<LANES, N>(sum, [=](int lane, int k, float total) {
    int c = (blockIdx.x * LANES + lane) * N + k;
    if (c < norm.channels) narrow(6 * total / area, out[(i64)blockIdx.y * norm.channels + c]);
  });
}

// The gradient of norm(x) where relu6 let it through, and its sums. `grad` is that of each row, or, with an `area`, of the mean over
// an image's rows; `activated`, if given, becomes relu6(norm(x)).
extern "C" __global__ void mask(const T* grad, const T* x, Norm norm, T* masked, T* activated, float* sums, int area, int rows) {
  Span s(norm.channels);
  float scale[N], shift[N], sum[2 * N] = {};
  for (int k = 0; s.there && k < N; k++) {
    Affine f = affine(norm, s.c + k);
    scale[k] = f.scale / 6;
    shift[k] = f.shift / 6;
  }
  float share = area ? 1.0f / area : 1.0f;
  for (int row = s.row; s.there && row < rows; row += s.step) {
    i64 at = (i64)row * norm.channels + s.c;
    Values<N> v = load(x + at), g = load(grad + (area ? (i64)(row / area) * norm.channels + s.c : at)), out;
    for (int k = 0; k < N; k++) {
      float value = wide(v.v[k]), u = __saturatef(fmaf(value, scale[k], shift[k]));
      narrow(6 * u, out.v[k]);
      narrow(u > 0 && u < 1 ? wide(g.v[k]) * share : 0.0f, g.v[k]);
      float through = wide(g.v[k]);
      sum[k] += through;
      sum[N + k] += through * value;
    }
    store(masked + at, g);
    if (activated) store(activated + at, out);
  }
  reduce<LANES, 2 * N>(sum, [=](int lane, int k, float total) {
    int c = (blockIdx.x * LANES + lane) * N + k % N;
    if (c < norm.channels) atomicAdd(sums + k / N * norm.channels + c, total);
  });
}

// Adds up gradients and their products with values.
extern "C" __global__ void add_up_back(const T* grad, const T* x, float* sums, int channels, int rows) {
  Span s(channels);
  float sum[2 * N] = {};
  for (int row = s.row; s.there && row < rows; row += s.step) {
    i64 at = (i64)row * channels + s.c;
    Values<N> g = load(grad + at), v = load(x + at);
    for (int k = 0; k < N; k++) {
      sum[k] += wide(g.v[k]);
      sum[N + k] += wide(g.v[k]) * wide(v.v[k]);
    }
  }
  reduce<LANES, 2 * N>(sum, [=](int lane, int k, float total) {
    int c = (blockIdx.x * LANES + lane) * N + k % N;
    if (c < channels) atomicAdd(sums + k / N * channels + c, total);
  });
}

// The gradient of x from that of norm(x).
extern "C" __global__ void normalise_back(const T* grad, const T* x, Norm norm, const float* sums, T* dx, int rows) {
  Span s(norm.channels);
  if (!s.there) return;
  Back f[N];
  for (int k = 0; k < N; k++) f[k] = back(norm, sums, s.c + k);
  for (int row = s.row; row < rows; row += s.step) {
    i64 at = (i64)row * norm.channels + s.c;
    Values<N> g = load(grad + at), v = load(x + at);
    for (int k = 0; k < N; k++) narrow(f[k].a * wide(g.v[k]) - f[k].b * wide(v.v[k]) - f[k].c, g.v[k]);
    store(dx + at, g);
  }
}

// ---------- depthwise convolutions ----------

// A thread works on a few channels of a tile of rows and columns. A block's threads are 8 or 16 lanes of channels and so many tiles,
// beside each other in the image or, where an image is small, of several images.
struct Tiles {
  int images, height, width, out_height, out_width, channels;
  int down, across, block_down, block_across;   // tiles of an image, and of a block; the latter 0: tiles as they come
  int blocks;
};

struct Place { int image, i, j; bool there; };

__device__ inline Place place(const Tiles& t, int block, int lane, int lanes) {
  if (t.block_across == 0) {
    int at = block * lanes + lane, in_image = at % (t.down * t.across), image = at / (t.down * t.across);
    return {image, in_image / t.across, in_image % t.across, image < t.images};
  }
  int wide = (t.across + t.block_across - 1) / t.block_across, high = (t.down + t.block_down - 1) / t.block_down;
  int image = block / (wide * high), in_image = block % (wide * high);
  int i = in_image / wide * t.block_down + lane / t.block_across, j = in_image % wide * t.block_across + lane % t.block_across;
  return {image, i, j, i < t.down && j < t.across};
}

// Outputs of a tile are HIGH x WIDE. `sums` are the output's.
template <int S, int HIGH, int WIDE> __device__ inline void convolve(const T* x, const Norm& norm, const float* weight, T* y, float* sums,
                                                                     const Tiles& t) {
  constexpr int V = 4, CHANNEL_LANES = 8, DOWN = (HIGH - 1) * S + 3, ACROSS = (WIDE - 1) * S + 3;
  int c = (blockIdx.x * CHANNEL_LANES + threadIdx.x % CHANNEL_LANES) * V;
  bool there = c < t.channels;
  float w[9][V], scale[V], shift[V], sum[2 * V] = {};
  for (int k = 0; there && k < V; k++) {
    Affine f = affine(norm, c + k);
    scale[k] = f.scale / 6;
    shift[k] = f.shift / 6;
    for (int tap = 0; tap < 9; tap++) w[tap][k] = 6 * weight[(c + k) * 9 + tap];
    if (blockIdx.y == 0 && threadIdx.x < CHANNEL_LANES) keep(norm, c + k);
  }
  for (int block = blockIdx.y; block < t.blocks; block += gridDim.y) {
    Place at = place(t, block, threadIdx.x / CHANNEL_LANES, 256 / CHANNEL_LANES);
    if (!there || !at.there) continue;
    int i0 = at.i * HIGH, j0 = at.j * WIDE;
    const T* from = x + (i64)at.image * t.height * t.width * t.channels + c;
    float out[HIGH][WIDE][V] = {};
    #pragma unroll
    for (int r = 0; r < DOWN; r++) {
      int i = i0 * S + r - 1;
      bool row_there = i >= 0 && i < t.height;
      Values<V> raw[ACROSS];
      #pragma unroll
      for (int q = 0; q < ACROSS; q++) {
        int j = j0 * S + q - 1;
        if (row_there && j >= 0 && j < t.width) raw[q] = load<V>(from + ((i64)i * t.width + j) * t.channels);
      }
      #pragma unroll
      for (int q = 0; q < ACROSS; q++) {
        int j = j0 * S + q - 1;
        bool in = row_there && j >= 0 && j < t.width;
        float u[V];
        for (int k = 0; k < V; k++) u[k] = in ? __saturatef(fmaf(wide(raw[q].v[k]), scale[k], shift[k])) : 0.0f;
        #pragma unroll
        for (int o = 0; o < HIGH; o++) {
          int down = r - o * S;
          if (down < 0 || down > 2) continue;
          #pragma unroll
          for (int p = 0; p < WIDE; p++) {
            int right = q - p * S;
            if (right < 0 || right > 2) continue;
            for (int k = 0; k < V; k++) out[o][p][k] += u[k] * w[down * 3 + right][k];
          }
        }
      }
    }
    T* to = y + (i64)at.image * t.out_height * t.out_width * t.channels + c;
    #pragma unroll
    for (int o = 0; o < HIGH; o++) {
      #pragma unroll
      for (int p = 0; p < WIDE; p++) {
        if (i0 + o >= t.out_height || j0 + p >= t.out_width) continue;
        Values<V> v;
        for (int k = 0; k < V; k++) {
          narrow(out[o][p][k], v.v[k]);
          float value = wide(v.v[k]);
          sum[k] += value;
          sum[V + k] += value * value;
        }
        store(to + ((i64)(i0 + o) * t.out_width + j0 + p) * t.channels, v);
      }
    }
  }
  reduce<CHANNEL_LANES, 2 * V>(sum, [=](int lane, int k, float total) {
    int to = (blockIdx.x * CHANNEL_LANES + lane) * V + k % V;
    if (to < t.channels) atomicAdd(sums + k / V * t.channels + to, total);
  });
}

extern "C" __global__ void __launch_bounds__(256, 2) depthwise_1(const T* x, Norm norm, const float* weight, T* y, float* sums, Tiles t) {
  convolve<1, 4, 2>(x, norm, weight, y, sums, t);
}
extern "C" __global__ void __launch_bounds__(256, 2) depthwise_2(const T* x, Norm norm, const float* weight, T* y, float* sums, Tiles t) {
  convolve<2, 2, 2>(x, norm, weight, y, sums, t);
}

// Both gradients: that of the weight, and that of norm(x) where relu6 let it through, with its sums. `grad` is of the normalised
// output, `y` the raw one. Inputs of a tile are HIGH x WIDE.
template <int S, int HIGH, int WIDE> __device__ inline void convolve_back(const T* grad, const T* y, const Norm& out_norm,
    const float* out_sums, const T* x, const Norm& norm, const float* weight, T* dx, float* sums, float* dw, const Tiles& t) {
  constexpr int V = 2, CHANNEL_LANES = 16, FIRST = S == 1 ? -1 : 0;
  constexpr int LAST_DOWN = S == 1 ? HIGH : HIGH / 2, LAST_ACROSS = S == 1 ? WIDE : WIDE / 2;
  int c = (blockIdx.x * CHANNEL_LANES + threadIdx.x % CHANNEL_LANES) * V;
  bool there = c < t.channels;
  float w[9][V], scale[V], shift[V], sum[11 * V] = {};
  Back f[V];
  for (int k = 0; there && k < V; k++) {
    Affine a = affine(norm, c + k);
    scale[k] = a.scale / 6;
    shift[k] = a.shift / 6;
    f[k] = back(out_norm, out_sums, c + k);
    for (int tap = 0; tap < 9; tap++) w[tap][k] = weight[(c + k) * 9 + tap];
  }
  for (int block = blockIdx.y; block < t.blocks; block += gridDim.y) {
    Place at = place(t, block, threadIdx.x / CHANNEL_LANES, 256 / CHANNEL_LANES);
    if (!there || !at.there) continue;
    int i0 = at.i * HIGH, j0 = at.j * WIDE;
    i64 in_base = (i64)at.image * t.height * t.width * t.channels + c, out_base = (i64)at.image * t.out_height * t.out_width * t.channels + c;
    float u[HIGH][WIDE][V], through[HIGH][WIDE][V] = {};
    #pragma unroll
    for (int p = 0; p < HIGH; p++) {
      #pragma unroll
      for (int q = 0; q < WIDE; q++) {
        bool in = i0 + p < t.height && j0 + q < t.width;
        Values<V> raw;
        if (in) raw = load<V>(x + in_base + ((i64)(i0 + p) * t.width + j0 + q) * t.channels);
        for (int k = 0; k < V; k++) u[p][q][k] = in ? __saturatef(fmaf(wide(raw.v[k]), scale[k], shift[k])) : 0.0f;
      }
    }
    #pragma unroll
    for (int r = FIRST; r <= LAST_DOWN; r++) {
      int i = i0 / S + r;
      bool row_there = i >= 0 && i < t.out_height;
      Values<V> g[LAST_ACROSS - FIRST + 1], v[LAST_ACROSS - FIRST + 1];
      #pragma unroll
      for (int q = FIRST; q <= LAST_ACROSS; q++) {
        int j = j0 / S + q;
        if (row_there && j >= 0 && j < t.out_width) {
          i64 from = out_base + ((i64)i * t.out_width + j) * t.channels;
          g[q - FIRST] = load<V>(grad + from);
          v[q - FIRST] = load<V>(y + from);
        }
      }
      #pragma unroll
      for (int q = FIRST; q <= LAST_ACROSS; q++) {
        int j = j0 / S + q;
        bool in = row_there && j >= 0 && j < t.out_width;
        float d[V];
        for (int k = 0; k < V; k++) {
          d[k] = in ? fmaf(f[k].a, wide(g[q - FIRST].v[k]), -fmaf(f[k].b, wide(v[q - FIRST].v[k]), f[k].c)) : 0.0f;
        }
        #pragma unroll
        for (int p = 0; p < HIGH; p++) {
          int down = p - S * r + 1;
          if (down < 0 || down > 2) continue;
          #pragma unroll
          for (int o = 0; o < WIDE; o++) {
            int right = o - S * q + 1;
            if (right < 0 || right > 2) continue;
            for (int k = 0; k < V; k++) {
              through[p][o][k] += d[k] * w[down * 3 + right][k];
              sum[(2 + down * 3 + right) * V + k] += d[k] * u[p][o][k];
            }
          }
        }
      }
    }
    #pragma unroll
    for (int p = 0; p < HIGH; p++) {
      #pragma unroll
      for (int q = 0; q < WIDE; q++) {
        if (i0 + p >= t.height || j0 + q >= t.width) continue;
        i64 to = in_base + ((i64)(i0 + p) * t.width + j0 + q) * t.channels;
        Values<V> raw = load<V>(x + to), out;
        for (int k = 0; k < V; k++) {
          narrow(u[p][q][k] > 0 && u[p][q][k] < 1 ? through[p][q][k] : 0.0f, out.v[k]);
          float value = wide(out.v[k]);
          sum[k] += value;
          sum[V + k] += value * wide(raw.v[k]);
        }
        store(dx + to, out);
      }
    }
  }
  reduce<CHANNEL_LANES, 11 * V>(sum, [=](int lane, int k, float total) {
    int to = (blockIdx.x * CHANNEL_LANES + lane) * V + k % V, which = k / V;
    if (to >= t.channels) return;
    if (which < 2) atomicAdd(sums + which * t.channels + to, total);
    else atomicAdd(dw + to * 9 + which - 2, 6 * total);
  });
}

extern "C" __global__ void __launch_bounds__(256, 2) depthwise_back_1(const T* grad, const T* y, Norm out_norm, const float* out_sums,
    const T* x, Norm norm, const float* weight, T* dx, float* sums, float* dw, Tiles t) {
  convolve_back<1, 2, 2>(grad, y, out_norm, out_sums, x, norm, weight, dx, sums, dw, t);
}
extern "C" __global__ void __launch_bounds__(256, 2) depthwise_back_2(const T* grad, const T* y, Norm out_norm, const float* out_sums,
    const T* x, Norm norm, const float* weight, T* dx, float* sums, float* dw, Tiles t) {
  convolve_back<2, 4, 2>(grad, y, out_norm, out_sums, x, norm, weight, dx, sums, dw, t);
}

// ---------- pointwise convolutions without a pass over their output ----------

// Outputs are y = W x, so sums over rows of y and y^2 follow from those of x and x x^T (`gram` [inputs, inputs]): sum y_j = w_j . sum x,
// sum y_j^2 = w_j^T gram w_j. `product` becomes W gram. Eight outputs a block.
constexpr int AT_ONCE = 8, SMALL = 512;

extern "C" __global__ void moments(const float* gram, const T* weight, const float* input_sums, float* product, float* sums, int inputs,
                                   int outputs) {
  __shared__ float w[AT_ONCE][SMALL], part[SMALL * AT_ONCE], totals[2][AT_ONCE];
  int first = blockIdx.x * AT_ONCE;
  for (int at = threadIdx.x; at < AT_ONCE * inputs; at += SMALL) {
    int j = at / inputs;
    w[j][at % inputs] = first + j < outputs ? wide(weight[(i64)first * inputs + at]) : 0.0f;
  }
  if (threadIdx.x < 2 * AT_ONCE) totals[threadIdx.x / AT_ONCE][threadIdx.x % AT_ONCE] = 0;
  __syncthreads();
  int groups = SMALL / inputs, group = threadIdx.x / inputs, i = threadIdx.x % inputs;
  float sum[AT_ONCE] = {};
  if (group < groups) {
    #pragma unroll 4
    for (int k = group; k < inputs; k += groups) {
      float value = gram[(i64)k * inputs + i];
      for (int j = 0; j < AT_ONCE; j++) sum[j] += value * w[j][k];
    }
  }
  for (int j = 0; j < AT_ONCE; j++) part[j * SMALL + threadIdx.x] = sum[j];
  __syncthreads();
  // Warps share out the outputs.
  for (int j = threadIdx.x / 32; j < AT_ONCE; j += SMALL / 32) {
    float squares = 0, plain = 0;
    for (int c = threadIdx.x % 32; c < inputs; c += 32) {
      float total = 0;
      for (int g = 0; g < groups; g++) total += part[j * SMALL + g * inputs + c];
      if (first + j < outputs) product[(i64)(first + j) * inputs + c] = total;
      squares += total * w[j][c];
      plain += input_sums[c] * w[j][c];
    }
    for (int m = 16; m > 0; m /= 2) {
      squares += __shfl_xor_sync(0xffffffffu, squares, m);
      plain += __shfl_xor_sync(0xffffffffu, plain, m);
    }
    if (threadIdx.x % 32 == 0 && first + j < outputs) {
      sums[first + j] = plain;
      sums[outputs + first + j] = squares;
    }
  }
}

// The gradient of y = W x is a g - b y - c (`back`), so that of x is (a W)^T g - (W^T b W) x - W^T c: `scaled` = a W [outputs,
// inputs], `square` = -W^T b W [inputs, inputs], `constant` = -W^T c (+ what comes with the gradient of the residual sum).
extern "C" __global__ void unfold(const T* weight, Norm norm, const float* grads, T* scaled, T* square, const float* more, float* constant,
                                  int inputs) {
  __shared__ float by[SMALL][AT_ONCE + 1], part[SMALL * AT_ONCE];
  int outputs = norm.channels, first = blockIdx.x * AT_ONCE;
  int groups = SMALL / inputs, group = threadIdx.x / inputs, i = threadIdx.x % inputs;
  float sum[AT_ONCE] = {}, shift = 0;
  for (int begin = 0; begin < outputs; begin += SMALL) {
    int j = begin + threadIdx.x, count = min(SMALL, outputs - begin);
    if (j < outputs) {
      Back f = back(norm, grads, j);
      for (int k = 0; k < AT_ONCE; k++) {
        float w = first + k < inputs ? wide(weight[(i64)j * inputs + first + k]) : 0.0f;
        by[threadIdx.x][k] = f.b * w;
        if (first + k < inputs) narrow(f.a * w, scaled[(i64)j * inputs + first + k]);
      }
      by[threadIdx.x][AT_ONCE] = f.c;
    }
    __syncthreads();
    if (group < groups) {
      #pragma unroll 4
      for (int k = group; k < count; k += groups) {
        float w = wide(weight[(i64)(begin + k) * inputs + i]);
        for (int m = 0; m < AT_ONCE; m++) sum[m] += w * by[k][m];
        shift += w * by[k][AT_ONCE];
      }
    }
    __syncthreads();
  }
  for (int m = 0; m < AT_ONCE; m++) part[m * SMALL + threadIdx.x] = sum[m];
  __syncthreads();
  for (int at = threadIdx.x; at < AT_ONCE * inputs; at += SMALL) {
    int m = at / inputs, c = at % inputs;
    float total = 0;
    for (int g = 0; g < groups; g++) total += part[m * SMALL + g * inputs + c];
    if (first + m < inputs) narrow(-total, square[(i64)(first + m) * inputs + c]);
  }
  if (blockIdx.x > 0) return;
  __syncthreads();
  part[threadIdx.x] = shift;
  __syncthreads();
  for (int c = threadIdx.x; c < inputs; c += SMALL) {
    float total = more ? -more[c] : 0.0f;
    for (int g = 0; g < groups; g++) total += part[g * inputs + c];
    constant[c] = -total;
  }
}

// ---------- gradients of parameters ----------

// Of a layer's normalisation, from the sums of its output's gradient; `constant` is a part of that gradient that the sums lack.
struct NormGrad { Norm norm; const float *sums, *constant; float *gamma, *beta; };
// Of a pointwise layer y = W x, from `parts` partial sums [outputs, columns] of g x^T; with `product` and `input_sums`, as in
// `moments`, g is the normalised output's and `norm_grad` says whose.
struct WeightGrad { const float* partial; int parts, outputs, inputs, columns; const float *product, *input_sums; float* grad; };

extern "C" __global__ void finish(NormGrad n0, NormGrad n1, NormGrad n2, WeightGrad w0, WeightGrad w1) {
  int at = blockIdx.x * 256 + threadIdx.x;
  NormGrad norms[3] = {n0, n1, n2};
  int from = 0;
  for (int k = 0; k < 3; k++) {
    const NormGrad& n = norms[k];
    int c = at - from;
    from += n.norm.channels;
    if (c < 0 || c >= n.norm.channels) continue;
    Affine f = affine(n.norm, c);
    n.gamma[c] = f.inverse * (n.sums[n.norm.channels + c] - f.mean * n.sums[c]);
    n.beta[c] = n.sums[c] + (n.constant ? n.norm.count * n.constant[c] : 0.0f);
  }
  WeightGrad weights[2] = {w0, w1};
  from = 0;
  for (int k = 0; k < 2; k++) {
    const WeightGrad& w = weights[k];
    int index = at - from, size = w.outputs * w.inputs;
    from += size;
    if (index < 0 || index >= size) continue;
    int j = index / w.inputs, c = index % w.inputs;
    float total = 0;
    for (int p = 0; p < w.parts; p++) total += w.partial[((i64)p * w.outputs + j) * w.columns + c];
    if (w.product) {
      Back f = back(n0.norm, n0.sums, j);
      total = f.a * total - f.b * w.product[(i64)j * w.columns + c] - f.c * w.input_sums[c];
    }
    w.grad[index] = total;
  }
}
)CUDA";
