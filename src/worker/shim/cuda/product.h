// Matrix products by cuBLASLt's fastest algorithm.
#pragma once
#include <ATen/ATen.h>

// Whether `product` serves these: contiguous rows of one type, fp32, fp16 or bf16.
bool can_multiply(const at::Tensor& x, const at::Tensor& weight);

// x W^T, or x W. Which algorithm is fastest is measured when a shape has come a few times, unless runs must be deterministic.
at::Tensor multiply(const at::Tensor& x, const at::Tensor& weight, bool transposed);
