// Matrices that are stored in another form than products read: NF4 and fake quantisation. Computed by libtorch's operations, in the order
// and types of torchao 0.7, so that the numbers are equal to torchao's. And matrices in FP8, which products read as they are stored.
#pragma once
#include <ATen/ATen.h>

#include <limits>

// A frozen matrix [out, in] in NF4 with double quantisation (arXiv 2305.14314). `factors`, `mean` and `levels` have the type in which
// products read the matrix.
struct Nf4 {
  static constexpr int64_t BLOCK = 64;          // numbers that share a scale
  static constexpr int64_t SCALE_BLOCK = 256;   // scales that share a factor

  at::Tensor codes;    // [out * in / 2], two numbers per byte, the first one in the upper half
  at::Tensor scales;   // [out * in / BLOCK], int8
  at::Tensor factors;  // [scales / SCALE_BLOCK, rounded up]
  at::Tensor mean;     // [1], mean of the scales before they were quantised
  at::Tensor levels;   // [16]
  int64_t out = 0;

  int64_t numbers() const { return codes.numel() * 2; }
};

// Writes the matrix to `rows`, [out, in].
inline void dequantise_plain(const Nf4& w, at::Tensor rows) {
  auto factors = w.factors.unsqueeze(1).expand({w.factors.size(0), Nf4::SCALE_BLOCK}).reshape({-1}).narrow(0, 0, w.scales.size(0));
  auto scales = w.scales.div(factors).add_(w.mean);
  auto level = [&](const at::Tensor& codes) { return w.levels.index_select(0, codes.to(at::kInt)); };
  auto first = level(w.codes.bitwise_right_shift(4)), second = level(w.codes.bitwise_and(15));
  auto blocks = at::stack({first, second}, 1).view({-1, Nf4::BLOCK});
  rows.view({-1, Nf4::BLOCK}).copy_(blocks.mul_(scales.unsqueeze(1)));
}

// Rows in FP8 (e4m3), each divided by a scale of its own, by which its greatest number becomes 448: e4m3 has no greater one.
struct Fp8Rows {
  static constexpr double MOST = 448;

  at::Tensor codes;    // [rows, width], e4m3
  at::Tensor scales;   // [rows, 1], fp32

  at::Tensor decoded() const { return codes.to(at::kFloat).mul_(scales); }
};

// A frozen matrix [out, in] in FP8, stored twice: tensor cores read FP8 only along the rows that a product sums over.
struct Fp8 {
  Fp8Rows rows;      // [out, in], for x W^T
  Fp8Rows columns;   // [in, out], for x W

  bool defined() const { return rows.codes.defined(); }
};

// Divides by the scales through their reciprocals, as the kernel for GPUs does, so that both give the same codes.
inline Fp8Rows quantise_rows_plain(const at::Tensor& x) {
  auto scales = x.abs().amax({1}, true).to(at::kFloat).mul_(1 / Fp8Rows::MOST).clamp_min_(std::numeric_limits<float>::min());
  auto codes = x.mul(scales.reciprocal()).clamp_(-Fp8Rows::MOST, Fp8Rows::MOST).to(at::kFloat8_e4m3fn).contiguous();
  return {codes, scales};
}

// x W^T for rows of x and of W, in the type `kind`. With `fast`, tensor cores keep fewer digits of their sums.
inline at::Tensor multiply_rows(const Fp8Rows& x, const Fp8Rows& w, at::ScalarType kind, bool fast) {
  if (x.codes.is_cuda()) return at::_scaled_mm(x.codes, w.codes.t(), x.scales, w.scales.t(), {}, {}, kind, fast);
  // libtorch multiplies rows in FP8 on GPUs only. Here the same numbers are multiplied in fp32.
  return at::mm(x.codes.to(at::kFloat), w.codes.to(at::kFloat).t()).mul_(x.scales).mul_(w.scales.t()).to(kind);
}

// `w` [out, in], rounded to 4-bit integers times one scale for each `group` of a row.
inline at::Tensor fake_quantise_groups_plain(const at::Tensor& w, int64_t group) {
  auto groups = w.view({w.size(0), -1, group});
  auto low = groups.amin({2}, true).clamp_max(0), high = groups.amax({2}, true).clamp_min(0);
  auto scale = at::maximum(low.neg(), high).div(7.5).clamp_min(std::numeric_limits<float>::epsilon()).to(at::kFloat);
  auto codes = groups.mul(scale.reciprocal()).round_().clamp_(-8, 7);
  return codes.mul_(scale).to(w.scalar_type()).view(w.sizes());
}

// `x`, rounded to 8-bit integers between the smallest and greatest number of each row and 0.
inline at::Tensor fake_quantise_tokens_plain(const at::Tensor& x) {
  auto low = x.amin({-1}, true).clamp_max(0), high = x.amax({-1}, true).clamp_min(0);
  auto scale = high.sub(low).div(255.0).clamp_min(std::numeric_limits<float>::epsilon());
  auto below = low.div(scale), above = high.div(scale);
  auto zero = at::where(below.sub(128).add(above.add(127)).gt(0), below.neg().sub(128), above.neg().add(127)).clamp(-128, 127).round();
  auto wide = scale.to(at::kFloat), zero_point = zero.to(at::kFloat);
  auto codes = x.to(at::kFloat).mul(wide.reciprocal()).round_().add_(zero_point).clamp_(-128, 127);
  return codes.sub_(zero_point).mul_(wide).to(x.scalar_type());
}
