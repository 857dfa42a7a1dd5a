// What MobileNetV2's kernels share with the host.
#pragma once

// Blocks of a pass over rows: LANES threads side by side along channels, one pack each, and ROWS rows at a time.
constexpr int LANES = 4, ROWS = 64;
constexpr int PATCH = 32;                  // columns of the stem's input as a matrix
constexpr int PAIRS = 16, STRIPS = 16;     // pairs of channels and columns of outputs of a depthwise convolution's block
constexpr int AT_ONCE = 8, SMALL = 512;    // outputs and threads of a block of `moments`
// Most rows of outputs of a band, by the stride.
template <int S> constexpr int MOST_HIGH = S == 1 ? 7 : 4;

// One layer's batch normalisation: sums over rows of its values and their squares [2, channels], and what normalises.
struct Norm {
  const float *sums, *gamma, *beta;
  float *running_mean, *running_variance;
  float count;
  int channels;
};
static_assert(sizeof(Norm) == 48);

// How a depthwise convolution is divided.
struct Maps {
  int images, height, width, out_height, out_width, channels;
  int high, bands;   // rows of outputs of a band, at most MOST_HIGH, and bands of an image
  int blocks;
};
static_assert(sizeof(Maps) == 36);

// Gradients of a layer's normalisation, from the sums of its output's gradient; `constant` is a part of that gradient that the sums lack.
struct NormGrad {
  Norm norm;
  const float *sums, *constant;
  float *gamma, *beta;
};
static_assert(sizeof(NormGrad) == 80);

// That of a pointwise layer y = W x, from `parts` partial sums [outputs, columns] of g x^T; with `product` and `input_sums`, as in
// `moments`, g is the gradient of the normalised output.
struct WeightGrad {
  const float* partial;
  int parts, outputs, inputs, columns;
  const float *product, *input_sums;
  float* grad;
};
static_assert(sizeof(WeightGrad) == 48);
