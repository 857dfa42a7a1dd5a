// Matrix products by cuBLASLt's fastest algorithm.
#pragma once
#include <ATen/ATen.h>

// Whether `product` serves these: contiguous rows of one type, fp32, fp16 or bf16.
bool can_multiply(const at::Tensor& x, const at::Tensor& weight);

// x W^T, or x W. Which algorithm is fastest is measured when a shape has come a few times, unless runs must be deterministic.
at::Tensor multiply(const at::Tensor& x, const at::Tensor& weight, bool transposed);

// d = x W^T, or x W (+ c), a pointwise convolution of rows, all contiguous; c may be d.
void convolve_into(at::Tensor& d, const at::Tensor& x, const at::Tensor& weight, bool transposed, const at::Tensor& c = {});

// a^T b in fp32, [batch, columns of a, columns of b], of each of `batch` equal pieces of their rows.
at::Tensor outer(const at::Tensor& a, const at::Tensor& b, int64_t batch);
