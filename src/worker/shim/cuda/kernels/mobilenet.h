// What MobileNetV2's kernels share with the host.
#pragma once

// A block of a pass over rows has LANES threads side by side along channels, with one pack each, and works on ROWS rows at a time.
constexpr int LANES = 4, ROWS = 64;
constexpr int PATCH = 32;                  // columns of the stem's input in the form of a matrix
constexpr int PAIRS = 16, STRIPS = 16;     // pairs of channels, and columns of outputs, in a block of a depthwise convolution
constexpr int AT_ONCE = 8, SMALL = 512;    // outputs and threads in a block of `moments`
// The maximum number of rows of outputs in a band, by stride.
template <int S> constexpr int MOST_HIGH = S == 1 ? 7 : 4;

// One layer's batch normalisation: the sums over rows of its values and of their squares [2, channels], and its parameters.
struct Norm {
  const float *sums, *gamma, *beta;
  float *running_mean, *running_variance;
  float count;
  int channels;
};
static_assert(sizeof(Norm) == 48);

// How the work of a depthwise convolution is divided.
struct Maps {
  int images, height, width, out_height, out_width, channels;
  int high, bands;   // rows of outputs in a band, at most MOST_HIGH, and bands in an image
  int blocks;
};
static_assert(sizeof(Maps) == 36);

// The gradients of a normalisation's parameters, from the sums of its output's gradient. `constant` is a part of that gradient that the
// sums do not include.
struct NormGrad {
  Norm norm;
  const float *sums, *constant;
  float *gamma, *beta;
};
static_assert(sizeof(NormGrad) == 80);

// The gradient of a pointwise layer's weight, y = W x, from `parts` partial sums [outputs, columns] of g x^T. If `product` and
// `input_sums` are given (see `moments`), g is the gradient of the normalised output.
struct WeightGrad {
  const float* partial;
  int parts, outputs, inputs, columns;
  const float *product, *input_sums;
  float* grad;
};
static_assert(sizeof(WeightGrad) == 48);
