// Matrix products by cuBLASLt's fastest algorithm.
#pragma once
#include <ATen/ATen.h>

// Whether `multiply` can multiply these: rows of the same type, which is fp32, fp16 or bf16. They may be further apart than their width.
bool can_multiply(const at::Tensor& x, const at::Tensor& weight);

// x W^T, or x W, whose rows are as far apart as those of W. The fastest algorithm is measured once a shape has occurred a few times,
// unless runs must be deterministic.
at::Tensor multiply(const at::Tensor& x, const at::Tensor& weight, bool transposed);

// d = x W^T, or x W (+ c): a pointwise convolution of rows. All tensors are contiguous; c may be d.
void convolve_into(at::Tensor& d, const at::Tensor& x, const at::Tensor& weight, bool transposed, const at::Tensor& c = {});

// a^T b in fp32, for each of `batch` equal pieces of their rows: [batch, columns of a, columns of b].
at::Tensor outer(const at::Tensor& a, const at::Tensor& b, int64_t batch);
