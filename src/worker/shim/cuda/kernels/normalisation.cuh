// Batch normalisation in MobileNetV2's kernels: a convolution's raw output is normalised by its sums over rows, where it is read.
#pragma once
#include "values.cuh"
#include "mobilenet.h"

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
