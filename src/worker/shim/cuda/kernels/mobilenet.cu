// MobileNetV2's fused kernels, which NVRTC compiles for this process's GPU. T is the type of activations; all arithmetic is in fp32.
// Activations are stored as rows [images * height * width, channels]. The raw output of a convolution is stored, together with its sums
// over rows; the kernels that read it use these sums to normalise it, and then activate it.
#include "normalisation.cuh"

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
