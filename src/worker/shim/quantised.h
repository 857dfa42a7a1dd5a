// Matrices that are stored in another form than products read: NF4 and fake quantisation. Computed by libtorch's operations, in the order
// and types of torchao 0.7, so that the numbers are equal to torchao's.
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
