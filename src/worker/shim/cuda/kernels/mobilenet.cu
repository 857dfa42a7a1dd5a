// MobileNetV2's fused kernels, which NVRTC compiles for this process's GPU. T is the type of activations; all arithmetic is in fp32.
// Activations are stored as rows [images * height * width, channels]. The raw output of a convolution is stored, together with its sums
// over rows; the kernels that read it use these sums to normalise it, and then activate it.
#include "values.cuh"
#include "mobilenet.h"

// ---------- batch normalisation ----------

struct Affine { float scale, shift, mean, inverse; };

__device__ inline Affine affine(const Norm& norm, int c) {
  float mean = norm.sums[c] / norm.count;
  float variance = fmaxf(norm.sums[norm.channels + c] / norm.count - mean * mean, 0.0f);
  float inverse = rsqrtf(variance + 1e-5f), scale = norm.gamma[c] * inverse;
  return {scale, norm.beta[c] - mean * scale, mean, inverse};
}

// Updates the running statistics, as torch.nn.BatchNorm2d does with momentum 0.1.
__device__ inline void keep(const Norm& norm, int c) {
  float mean = norm.sums[c] / norm.count;
  float variance = fmaxf(norm.sums[norm.channels + c] / norm.count - mean * mean, 0.0f);
  norm.running_mean[c] += 0.1f * (mean - norm.running_mean[c]);
  norm.running_variance[c] += 0.1f * (variance * norm.count / fmaxf(norm.count - 1, 1.0f) - norm.running_variance[c]);
}

// The gradient of a raw value x is a g - b x - c. g is the gradient of the normalised value; a, b and c are computed from sums over rows
// of g and g x [2, channels].
struct Back { float a, b, c; };

__device__ inline Back back(const Norm& norm, const float* grads, int c) {
  Affine f = affine(norm, c);
  float sum = grads[c], cross = (grads[norm.channels + c] - f.mean * sum) / norm.count;
  float b = f.scale * f.inverse * f.inverse * cross;
  return {f.scale, b, f.scale * sum / norm.count - b * f.mean};
}

// Adds K values of each channel lane over a block's threads. For each sum, one thread calls put(lane, k, sum).
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

struct Span {
  int c, row, step;
  bool there;
  __device__ Span(int channels)
      : c((blockIdx.x * LANES + threadIdx.x % LANES) * N), row(blockIdx.y * ROWS + threadIdx.x / LANES), step(gridDim.y * ROWS),
        there(c < channels) {}
};

// The rows of a 3x3 convolution with stride 2 as a matrix [rows, PATCH]: 27 values ordered by row, column and channel, then a one, then
// zeros.
extern "C" __global__ void patches(const void* images, int is_float, i64 of_image, i64 of_channel, i64 of_row, i64 of_column, T* out,
                                   int height, int width, int out_height, int out_width, int rows) {
  constexpr int PACKS = PATCH / N;
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
  store(out + (i64)row * PATCH + first, pack);
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

// Sums of values and of their squares.
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

// y = norm(x) + more, and the sums of y.
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

// The mean of relu6(norm(x)) over an image; blockIdx.y is the image.
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

// The gradient of norm(x), zero outside relu6's linear range, and its sums. `grad` is the gradient of each row, or, with an `area`, of
// the mean over an image's rows. `masked` may be null if the kernel that reads `grad` masks it again. If `activated` is given,
// relu6(norm(x)) is written to it.
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
    if (masked) store(masked + at, g);
    if (activated) store(activated + at, out);
  }
  reduce<LANES, 2 * N>(sum, [=](int lane, int k, float total) {
    int c = (blockIdx.x * LANES + lane) * N + k % N;
    if (c < norm.channels) atomicAdd(sums + k / N * norm.channels + c, total);
  });
}

// Sums of gradients and of their products with values.
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

// The gradient of x, computed from that of norm(x).
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

// A block works on 16 pairs of channels and 16 columns of outputs, which are counted through all images. A thread works on one pair and
// one column, down a band of rows. Each value is normalised once, by the thread of its column; threads of neighbouring columns read it
// from shared memory. A column of zeros stands for what is beyond the edge of an image.
typedef Values<2> Pair;

struct Column {
  int image, j;
  bool there;
  __device__ Column(const Maps& m, int at) : image(at / m.out_width), j(at - image * m.out_width), there(at >= 0 && image < m.images) {}
};

// `sums` are those of the output.
template <int S> __device__ inline void convolve(const T* x, const Norm& norm, const float* weight, T* y, float* sums, const Maps& m) {
  // Stride 2 reads three columns for each output, and only the odd ones are shared with a neighbour.
  constexpr int HIGH = MOST_HIGH<S>, ROWS_IN = S * (HIGH - 1) + 3, HALOS = S == 1 ? 2 : 1, WIDE = STRIPS + HALOS;
  __shared__ float2 tile[ROWS_IN][WIDE + 1][PAIRS];
  int pair = threadIdx.x % PAIRS, strip = threadIdx.x / PAIRS, c = (blockIdx.x * PAIRS + pair) * 2;
  bool there = c < m.channels;
  float w[9][2], scale[2], shift[2], sum[4] = {};
  for (int k = 0; there && k < 2; k++) {
    Affine f = affine(norm, c + k);
    scale[k] = f.scale / 6;
    shift[k] = f.shift / 6;
    for (int tap = 0; tap < 9; tap++) w[tap][k] = 6 * weight[(c + k) * 9 + tap];
    if (blockIdx.y == 0 && strip == 0) keep(norm, c + k);
  }
  if (strip < ROWS_IN) tile[strip][WIDE][pair] = {0, 0};
  auto active = [&](bool in, const Pair& raw) -> float2 {
    if (!in) return {0, 0};
    return {__saturatef(fmaf(wide(raw.v[0]), scale[0], shift[0])), __saturatef(fmaf(wide(raw.v[1]), scale[1], shift[1]))};
  };
  int in_row = m.width * m.channels, out_row = m.out_width * m.channels;
  for (int block = blockIdx.y; block < m.blocks; block += gridDim.y) {
    int first = block / m.bands * STRIPS, o0 = block % m.bands * m.high, i0 = S * o0 - 1, rows_in = S * (m.high - 1) + 3;
    Column at(m, first + strip);
    auto row_there = [&](int r) { return r < rows_in && i0 + r >= 0 && i0 + r < m.height; };
    auto column_of = [&](const Column& k, int j) { return x + (((i64)k.image * m.height + i0) * m.width + j) * m.channels + c; };
    Pair own[ROWS_IN], even[S == 1 ? 1 : ROWS_IN], beyond[2];
    bool in = there && at.there, in_own = in && S * at.j + S - 1 < m.width;
    const T* from = column_of(at, S * at.j);
    #pragma unroll
    for (int r = 0; r < ROWS_IN; r++) {
      if (in_own && row_there(r)) own[r] = load<2>(from + r * in_row + (S - 1) * m.channels);
      if (S == 2 && in && row_there(r)) even[r] = load<2>(from + r * in_row);
    }
    #pragma unroll
    for (int n = 0; n < 2; n++) {
      int h = strip + n * STRIPS, side = h / ROWS_IN, r = h % ROWS_IN;
      if (h >= HALOS * ROWS_IN) continue;
      Column k(m, side == 0 ? first - 1 : first + STRIPS);
      bool in_halo = there && k.there && row_there(r) && S * k.j + S - 1 < m.width;
      if (in_halo) beyond[n] = load<2>(column_of(k, S * k.j + S - 1) + r * in_row);
      tile[r][side == 0 ? 0 : WIDE - 1][pair] = active(in_halo, beyond[n]);
    }
    #pragma unroll
    for (int r = 0; r < ROWS_IN; r++) tile[r][1 + strip][pair] = active(in_own && row_there(r), own[r]);
    __syncthreads();
    int left = at.j > 0 ? strip : WIDE, right = S == 1 && at.j + 1 < m.out_width ? strip + 2 : WIDE;
    float out[3][2] = {};
    T* to = y + (((i64)at.image * m.out_height + o0) * m.out_width + at.j) * m.channels + c;
    #pragma unroll
    for (int r = 0; r < ROWS_IN; r++) {
      if (r >= rows_in) break;
      float2 u[3];
      u[0] = tile[r][left][pair];
      if constexpr (S == 1) {
        u[1] = tile[r][1 + strip][pair];
        u[2] = tile[r][right][pair];
      } else {
        u[1] = active(in && row_there(r), even[r]);
        u[2] = tile[r][1 + strip][pair];
      }
      #pragma unroll
      for (int down = 0; down < 3; down++) {
        int p = (r - down) / S;
        if (r < down || (r - down) % S != 0 || p >= HIGH) continue;
        #pragma unroll
        for (int q = 0; q < 3; q++) {
          out[p % 3][0] += u[q].x * w[down * 3 + q][0];
          out[p % 3][1] += u[q].y * w[down * 3 + q][1];
        }
      }
      int p = (r - 2) / S;
      if (r < 2 || (r - 2) % S != 0) continue;
      if (in && o0 + p < m.out_height) {
        Pair v;
        for (int k = 0; k < 2; k++) {
          narrow(out[p % 3][k], v.v[k]);
          float value = wide(v.v[k]);
          sum[k] += value;
          sum[2 + k] += value * value;
        }
        store<2>(to + p * out_row, v);
      }
      out[p % 3][0] = out[p % 3][1] = 0;
    }
    __syncthreads();
  }
  reduce<PAIRS, 4>(sum, [=](int lane, int k, float total) {
    int to = (blockIdx.x * PAIRS + lane) * 2 + k % 2;
    if (to < m.channels) atomicAdd(sums + k / 2 * m.channels + to, total);
  });
}

extern "C" __global__ void __launch_bounds__(256, 3) depthwise_1(const T* x, Norm norm, const float* weight, T* y, float* sums, Maps m) {
  convolve<1>(x, norm, weight, y, sums, m);
}
extern "C" __global__ void __launch_bounds__(256, 3) depthwise_2(const T* x, Norm norm, const float* weight, T* y, float* sums, Maps m) {
  convolve<2>(x, norm, weight, y, sums, m);
}

// Both gradients: of the weight, and of norm(x), zero outside relu6's linear range, with its sums. `grad` is the gradient of
// relu6(norm(y)), `out_sums` are the sums that `mask` computes from it, `y` is the raw output.
template <int S> __device__ inline void convolve_back(const T* grad, const T* y, const Norm& out_norm, const float* out_sums, const T* x,
    const Norm& norm, const float* weight, T* dx, float* sums, float* dw, const Maps& m) {
  // Stride 1 needs the gradients of one row and column before and after; stride 2 only those after, for S x S inputs each.
  constexpr int HIGH = MOST_HIGH<S>, BEFORE = S == 1 ? 1 : 0, ROWS_OUT = HIGH + 1 + BEFORE, WIDE = STRIPS + 1 + BEFORE;
  __shared__ float2 tile[ROWS_OUT][WIDE + 1][PAIRS];
  int pair = threadIdx.x % PAIRS, strip = threadIdx.x / PAIRS, c = (blockIdx.x * PAIRS + pair) * 2;
  bool there = c < m.channels;
  float w[9][2], scale[2], shift[2], out_scale[2], out_shift[2], sum[11][2] = {};
  Back f[2];
  for (int k = 0; there && k < 2; k++) {
    Affine a = affine(norm, c + k), o = affine(out_norm, c + k);
    scale[k] = a.scale / 6;
    shift[k] = a.shift / 6;
    out_scale[k] = o.scale / 6;
    out_shift[k] = o.shift / 6;
    f[k] = back(out_norm, out_sums, c + k);
    for (int tap = 0; tap < 9; tap++) w[tap][k] = weight[(c + k) * 9 + tap];
  }
  if (strip < ROWS_OUT) tile[strip][WIDE][pair] = {0, 0};
  // The gradient of the raw output.
  auto gradient = [&](bool in, const Pair& g, const Pair& v) -> float2 {
    if (!in) return {0, 0};
    float d[2];
    for (int k = 0; k < 2; k++) {
      float value = wide(v.v[k]), u = __saturatef(fmaf(value, out_scale[k], out_shift[k]));
      d[k] = fmaf(f[k].a, u > 0 && u < 1 ? wide(g.v[k]) : 0.0f, -fmaf(f[k].b, value, f[k].c));
    }
    return {d[0], d[1]};
  };
  int in_row = m.width * m.channels, out_row = m.out_width * m.channels;
  for (int block = blockIdx.y; block < m.blocks; block += gridDim.y) {
    int first = block / m.bands * STRIPS, o0 = block % m.bands * m.high, rows_out = m.high + 1 + BEFORE;
    Column at(m, first + strip);
    bool in = there && at.there;
    auto row_there = [&](int r) { return r < rows_out && o0 - BEFORE + r >= 0 && o0 - BEFORE + r < m.out_height; };
    auto out_of = [&](const Column& k) { return (((i64)k.image * m.out_height + o0 - BEFORE) * m.out_width + k.j) * m.channels + c; };
    auto in_there = [&](int p, int e) { return in && p < S * m.high && S * o0 + p < m.height && S * at.j + e < m.width; };
    Pair g[ROWS_OUT], v[ROWS_OUT], raw[S * HIGH][S];
    i64 out_at = out_of(at), in_at = (((i64)at.image * m.height + S * o0) * m.width + S * at.j) * m.channels + c;
    #pragma unroll
    for (int r = 0; r < ROWS_OUT; r++) {
      if (!(in && row_there(r))) continue;
      g[r] = load<2>(grad + out_at + r * out_row);
      v[r] = load<2>(y + out_at + r * out_row);
    }
    #pragma unroll
    for (int p = 0; p < S * HIGH; p++) {
      #pragma unroll
      for (int e = 0; e < S; e++) {
        if (in_there(p, e)) raw[p][e] = load<2>(x + in_at + p * in_row + e * m.channels);
      }
    }
    #pragma unroll
    for (int n = 0; n < 2; n++) {
      int h = strip + n * STRIPS, side = h / ROWS_OUT, r = h % ROWS_OUT;
      if (h >= (1 + BEFORE) * ROWS_OUT) continue;
      bool before = BEFORE == 1 && side == 0;
      Column k(m, before ? first - 1 : first + STRIPS);
      bool in_halo = there && k.there && row_there(r);
      i64 from = out_of(k) + r * out_row;
      Pair of_grad, of_y;
      if (in_halo) {
        of_grad = load<2>(grad + from);
        of_y = load<2>(y + from);
      }
      tile[r][before ? 0 : WIDE - 1][pair] = gradient(in_halo, of_grad, of_y);
    }
    #pragma unroll
    for (int r = 0; r < ROWS_OUT; r++) tile[r][BEFORE + strip][pair] = gradient(in && row_there(r), g[r], v[r]);
    __syncthreads();
    int left = at.j > 0 ? strip : WIDE, right = at.j + 1 < m.out_width ? BEFORE + strip + 1 : WIDE;
    auto active = [&](int p, int e) -> float2 {
      if (!in_there(p, e)) return {0, 0};
      const Pair& r = raw[p][e];
      return {__saturatef(fmaf(wide(r.v[0]), scale[0], shift[0])), __saturatef(fmaf(wide(r.v[1]), scale[1], shift[1]))};
    };
    // Adds one tap: a gradient of an output, applied to an input.
    auto tap = [&](int which, float2 d, float2 u, float* through) {
      through[0] += d.x * w[which][0];
      through[1] += d.y * w[which][1];
      sum[2 + which][0] += d.x * u.x;
      sum[2 + which][1] += d.y * u.y;
    };
    auto put = [&](int p, int e, float2 u, const float* through) {
      if (!in_there(p, e)) return;
      float values[2] = {u.x, u.y};
      Pair out;
      for (int k = 0; k < 2; k++) {
        narrow(values[k] > 0 && values[k] < 1 ? through[k] : 0.0f, out.v[k]);
        float value = wide(out.v[k]);
        sum[0][k] += value;
        sum[1][k] += value * wide(raw[p][e].v[k]);
      }
      store<2>(dx + in_at + p * in_row + e * m.channels, out);
    };
    if constexpr (S == 1) {
      float through[3][2] = {};
      float2 u[3];
      #pragma unroll
      for (int r = 0; r < ROWS_OUT; r++) {
        if (r >= rows_out) break;
        float2 d[3] = {tile[r][left][pair], tile[r][BEFORE + strip][pair], tile[r][right][pair]};
        if (r < HIGH) u[r % 3] = active(r, 0);
        #pragma unroll
        for (int down = 0; down < 3; down++) {
          int p = r + down - 2;
          if (p < 0 || p >= HIGH) continue;
          #pragma unroll
          for (int q = 0; q < 3; q++) tap(down * 3 + 2 - q, d[q], u[p % 3], through[p % 3]);
        }
        if (r < 2) continue;
        put(r - 2, 0, u[(r - 2) % 3], through[(r - 2) % 3]);
        through[(r - 2) % 3][0] = through[(r - 2) % 3][1] = 0;
      }
    } else {
      #pragma unroll
      for (int r = 0; r < HIGH; r++) {
        if (r >= m.high) break;
        float2 d[2][2];
        for (int below = 0; below < 2; below++) {
          d[below][0] = tile[r + below][strip][pair];
          d[below][1] = tile[r + below][right][pair];
        }
        #pragma unroll
        for (int odd = 0; odd < 2; odd++) {
          #pragma unroll
          for (int e = 0; e < 2; e++) {
            float2 u = active(2 * r + odd, e);
            float through[2] = {};
            #pragma unroll
            for (int below = 0; below <= odd; below++) {
              #pragma unroll
              for (int after = 0; after <= e; after++) tap((1 + odd - 2 * below) * 3 + 1 + e - 2 * after, d[below][after], u, through);
            }
            put(2 * r + odd, e, u, through);
          }
        }
      }
    }
    __syncthreads();
  }
  reduce<PAIRS, 22>(&sum[0][0], [=](int lane, int k, float total) {
    int to = (blockIdx.x * PAIRS + lane) * 2 + k % 2, which = k / 2;
    if (to >= m.channels) return;
    if (which < 2) atomicAdd(sums + which * m.channels + to, total);
    else atomicAdd(dw + to * 9 + which - 2, 6 * total);
  });
}

extern "C" __global__ void __launch_bounds__(256, 2) depthwise_back_1(const T* grad, const T* y, Norm out_norm, const float* out_sums,
    const T* x, Norm norm, const float* weight, T* dx, float* sums, float* dw, Maps m) {
  convolve_back<1>(grad, y, out_norm, out_sums, x, norm, weight, dx, sums, dw, m);
}
extern "C" __global__ void __launch_bounds__(256, 2) depthwise_back_2(const T* grad, const T* y, Norm out_norm, const float* out_sums,
    const T* x, Norm norm, const float* weight, T* dx, float* sums, float* dw, Maps m) {
  convolve_back<2>(grad, y, out_norm, out_sums, x, norm, weight, dx, sums, dw, m);
}

// ---------- pointwise convolutions without a pass over their output ----------

// Outputs are y = W x, so the sums over rows of y and y^2 follow from those of x and x x^T (`gram` [inputs, inputs]): sum y_j = w_j . sum
// x, sum y_j^2 = w_j^T gram w_j. W gram is written to `product`. A block works on AT_ONCE outputs.

extern "C" __global__ void moments(const float* gram, const T* weight, const float* input_sums, float* product, float* sums, int inputs,
                                   int outputs) {
  __shared__ float w[AT_ONCE][SMALL], part[SMALL * AT_ONCE];
  int first = blockIdx.x * AT_ONCE;
  for (int at = threadIdx.x; at < AT_ONCE * inputs; at += SMALL) {
    int j = at / inputs;
    w[j][at % inputs] = first + j < outputs ? wide(weight[(i64)first * inputs + at]) : 0.0f;
  }
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
  // The outputs are divided among warps.
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

// The gradient of y = W x is a g - b y - c (`back`), so the gradient of x is (a W)^T g - (b W)^T W x - W^T c. `scaled` = a W [outputs,
// inputs], `minus` = -(b W)^T [inputs, outputs], `constant` = -W^T c (+ `more`, the constant of the residual sum's gradient); `constant`
// must be zero before. A block works on a pack of outputs.
extern "C" __global__ void unfold(const T* weight, Norm norm, const float* grads, T* scaled, T* minus, const float* more, float* constant,
                                  int inputs) {
  __shared__ Back by[N];
  int outputs = norm.channels, first = blockIdx.x * N;
  if (threadIdx.x < N) by[threadIdx.x] = back(norm, grads, first + threadIdx.x);
  __syncthreads();
  for (int i = threadIdx.x; i < inputs; i += 256) {
    Values<N> pack;
    float sum = more && blockIdx.x == 0 ? more[i] : 0.0f;
    for (int k = 0; k < N; k++) {
      i64 at = (i64)(first + k) * inputs + i;
      float w = wide(weight[at]);
      narrow(by[k].a * w, scaled[at]);
      narrow(-by[k].b * w, pack.v[k]);
      sum -= by[k].c * w;
    }
    store(minus + (i64)i * outputs + first, pack);
    atomicAdd(constant + i, sum);
  }
}

// ---------- gradients of parameters ----------

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
