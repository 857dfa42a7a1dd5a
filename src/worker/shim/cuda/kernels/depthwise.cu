// MobileNetV2's depthwise 3x3 convolutions and their gradients; compiled together with mobilenet.cu.
#include "normalisation.cuh"

// A block works on 16 pairs of channels and 16 columns of outputs, which are counted through all images. A thread works on one pair and
// one column, down a band of rows. Each value is normalised once, by the thread of its column; threads of neighbouring columns read it
// from shared memory. A column of zeros stands for what is beyond the edge of an image.
typedef Values<2> Pair;

struct Column {
  int image, j;
  bool there;
  __device__ Column(const Maps& m, int at) : image(at / m.out_width), j(at - image * m.out_width), there(at >= 0 && image < m.images) {}
};

// Adds a row of inputs to the outputs that it is a part of; of three successive outputs, each has its place in `out`.
template <int S> __device__ __forceinline__ void add_row(int r, const float2 (&u)[3], const float (&w)[9][2], float (&out)[3][2]) {
  #pragma unroll
  for (int down = 0; down < 3; down++) {
    int p = (r - down) / S;
    if (r < down || (r - down) % S != 0 || p >= MOST_HIGH<S>) continue;
    #pragma unroll
    for (int q = 0; q < 3; q++) {
      out[p % 3][0] += u[q].x * w[down * 3 + q][0];
      out[p % 3][1] += u[q].y * w[down * 3 + q][1];
    }
  }
}

// Rounds the outputs of a pair of channels, and adds them to their sums and to those of their squares.
__device__ __forceinline__ void round_and_add(const float (&out)[2], Pair& v, float (&sum)[4]) {
  for (int k = 0; k < 2; k++) {
    narrow(out[k], v.v[k]);
    float value = wide(v.v[k]);
    sum[k] += value;
    sum[2 + k] += value * value;
  }
}

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
      add_row<S>(r, u, w, out);
      int p = (r - 2) / S;
      if (r < 2 || (r - 2) % S != 0) continue;
      if (in && o0 + p < m.out_height) {
        Pair v;
        round_and_add(out[p % 3], v, sum);
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
