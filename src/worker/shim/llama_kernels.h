// The operations of a Llama block between its matrix products, for one kind of device. Rows are tokens. A tensor of rows may have a
// stride that is greater than its width, but the columns of a row are contiguous.
#pragma once
#include <ATen/ATen.h>

#include "quantised.h"

// A linear layer whose output columns may hold several projections side by side, and their low-rank adapters: y = x W^T, and for each
// part p, y[:, start_p ..] += scale (x A_p^T) B_p^T. The A_p are the rows of one matrix.
struct Linear {
  at::Tensor weight;             // [out, in]; undefined if the matrix is in NF4 or FP8
  std::vector<Nf4> nf4;          // the projections, one below the other
  Fp8 fp8;                       // the matrix, if it is in FP8
  int64_t group = 0;             // above 0: products read the matrix and x after fake quantisation
  at::Tensor a;                  // [parts * rank, in], if there are adapters
  std::vector<at::Tensor> b;     // [width, rank] of each part
  std::vector<int64_t> start;    // the first column of each part
  double scale = 0;
  int64_t spare = 0;             // how many columns lie behind each row of the matrix, zero where no part's B is placed

  bool adapted() const { return !b.empty(); }
  int64_t rank() const { return b[0].size(1); }
  // Whether B can be placed behind the rows of the matrix.
  bool roomy() const { return adapted() && spare > 0; }
  // The matrix and what is placed behind its rows: [W | scale B], where part p has its B in its own rows and in the columns from
  // in + p * rank. The number of columns of B is rounded up, because products are faster with multiples of 8.
  at::Tensor wide() const {
    auto out = weight.size(0), in = weight.size(1), columns = in + (a.size(0) + 7) / 8 * 8;
    TORCH_CHECK(columns <= in + spare && weight.stride(0) == in + spare && weight.stride(1) == 1, "a matrix of ", in,
                " columns with rows ", weight.stride(0), " apart has no room for ", a.size(0), " columns more");
    return weight.as_strided({out, columns}, {weight.stride(0), 1});
  }
};

// The heads of a row, side by side: queries, then keys and the same number of values. cos and sin: [positions, width / 2] in fp32.
// Attention reads each key and value `repeats` times: once, or queries / keys times.
struct Heads {
  int64_t queries, keys, repeats, width;
  at::Tensor cos, sin, positions;

  int64_t columns() const { return (queries + 2 * keys) * width; }
};

// The gradients of a layer's adapters; gradients that are not computed yet are undefined.
struct AdapterGrads {
  at::Tensor a;
  std::vector<at::Tensor> b;
};

// The result of the backward pass through SwiGLU: the gradient of [gate | up], and for the adapters next to it either what their
// gradients are computed from (`output`, SwiGLU's result) or the gradients themselves.
struct SwigluGrads {
  at::Tensor gates, output;
  AdapterGrads gate_up, down;
};

struct LlamaKernels {
  virtual ~LlamaKernels() = default;

  // Writes a matrix that is stored in NF4 to `rows`, [out, in].
  virtual void dequantise(const Nf4& w, at::Tensor rows) = 0;
  // Fake quantisation: 4-bit numbers with one scale for each `group` of a row of `w`, and 8-bit numbers for each row of `x`.
  virtual at::Tensor fake_quantise_groups(const at::Tensor& w, int64_t group) = 0;
  virtual at::Tensor fake_quantise_tokens(const at::Tensor& x) = 0;

  // The matrix in the form that products read. It is freed after the product, so that never all matrices are stored in this form.
  at::Tensor dense(const Linear& linear) {
    if (linear.group > 0) return fake_quantise_groups(linear.weight, linear.group);
    if (linear.fp8.defined()) return linear.fp8.rows.decoded();
    if (linear.nf4.empty()) return linear.weight;
    int64_t numbers = 0, out = 0;
    for (const auto& part : linear.nf4) numbers += part.numbers(), out += part.out;
    auto all = at::empty({out, numbers / out}, linear.nf4[0].factors.options());
    int64_t first = 0;
    for (const auto& part : linear.nf4) {
      dequantise(part, all.narrow(0, first, part.out));
      first += part.out;
    }
    return all;
  }
  // What products read in place of x; gradients pass through unchanged.
  at::Tensor seen(const Linear& linear, const at::Tensor& x) { return linear.group > 0 ? fake_quantise_tokens(x) : x; }

  // x W^T, or x W. The rows of W may be further apart than their width.
  virtual at::Tensor product(const at::Tensor& x, const at::Tensor& weight, bool transposed) = 0;
  // Rows of x in FP8.
  virtual Fp8Rows quantise_rows(const at::Tensor& x) = 0;
  // `product` with a layer's matrix, in whichever form it is stored.
  at::Tensor product_of(const at::Tensor& x, const Linear& linear, bool transposed) {
    if (!linear.fp8.defined()) return product(x, dense(linear), transposed);
    // As in torchao, outputs are summed fast and gradients exactly.
    return multiply_rows(quantise_rows(x), transposed ? linear.fp8.rows : linear.fp8.columns, x.scalar_type(), transposed);
  }

  // y = x / rms(x) * weight, and 1 / rms(x) of each row in fp32.
  virtual void rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon, at::Tensor& y, at::Tensor& inverse) = 0;
  // `add_up`, then `rms_norm` of y.
  virtual void add_up_norm(at::Tensor& y, const at::Tensor& u, const Linear& linear, const at::Tensor& more, const at::Tensor& weight,
                           double epsilon, at::Tensor& normed, at::Tensor& inverse) {
    add_up(y, u, linear, more);
    rms_norm(y, weight, epsilon, normed, inverse);
  }
  // The gradient of x, plus `more` if it is defined. If `du` is defined, the gradient of y is grad + du A. `grad` may be overwritten.
  virtual at::Tensor rms_norm_backward(at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& inverse,
                                       const at::Tensor& more, const at::Tensor& du, const at::Tensor& a) = 0;

  // `add_up`, then queries and keys are rotated by their positions. If heads are repeated, the result is the keys and values that
  // attention reads, [rows, 2, queries, width], and those in `rows` are left undefined.
  virtual at::Tensor add_up_turn(at::Tensor& rows, const at::Tensor& u, const Linear& linear, const Heads& heads) = 0;
  // From the gradients of rotated queries and keys and of values, [batch, tokens, heads, width] as attention reads them, to those of the
  // rows: gradients of repeated heads are added, and the rotation is undone.
  virtual at::Tensor turn_back(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Heads& heads) = 0;

  // silu(gate) * up of rows [gate | up] + u B^T.
  virtual at::Tensor swiglu(const at::Tensor& gates, const at::Tensor& u, const Linear& gate_up) = 0;
  // The backward pass of `swiglu`. The gradient of its output is grad + du A of `down`, the layer that follows. `grad` may be
  // overwritten.
  virtual SwigluGrads swiglu_backward(at::Tensor& grad, const at::Tensor& gates, const at::Tensor& u, const Linear& gate_up,
                                      const at::Tensor& du, const Linear& down) = 0;

  // The cross entropy of each row in fp32, or 0 if the row's label is below 0. `logits` are replaced by their gradient.
  virtual at::Tensor cross_entropy(at::Tensor& logits, const at::Tensor& labels) = 0;

  // scale x A^T: [rows, parts * rank].
  virtual at::Tensor down(const at::Tensor& x, const at::Tensor& a, double scale) = 0;
  // y[:, part] += u_p B_p^T if there are adapters, and y += more if that is defined.
  virtual void add_up(at::Tensor& y, const at::Tensor& u, const Linear& linear, const at::Tensor& more) = 0;
  // scale dy[:, part] B_p, the parts side by side: [rows, parts * rank].
  virtual at::Tensor back(const at::Tensor& grad, const Linear& linear) = 0;
  // Writes scale B of each part behind the rows of the matrices of these layers, which have room for it. The product of dy and `wide`
  // is then [dx | du]: it costs hardly more than dx, while `back` reads all of dy again.
  virtual void place(const std::vector<const Linear*>& layers) = 0;
  // dx + du A, with contiguous rows. `dx` may be overwritten.
  virtual at::Tensor add_back(const at::Tensor& dx, const at::Tensor& du, const at::Tensor& a) = 0;
  // Computes the gradients that are still undefined: du^T x [parts * rank, in], and dy[:, part]^T u_p for each part.
  virtual void adapter_grads(AdapterGrads& grads, const at::Tensor& du, const at::Tensor& x, const at::Tensor& grad,
                             const at::Tensor& u, const Linear& linear) = 0;
};

// Each operation by libtorch's own operations.
struct PlainKernels : LlamaKernels {
  void dequantise(const Nf4& w, at::Tensor rows) override { dequantise_plain(w, std::move(rows)); }
  at::Tensor fake_quantise_groups(const at::Tensor& w, int64_t group) override { return fake_quantise_groups_plain(w, group); }
  at::Tensor fake_quantise_tokens(const at::Tensor& x) override { return fake_quantise_tokens_plain(x); }

  at::Tensor product(const at::Tensor& x, const at::Tensor& weight, bool transposed) override {
    return at::mm(x, transposed ? weight.t() : weight);
  }
  Fp8Rows quantise_rows(const at::Tensor& x) override { return quantise_rows_plain(x); }

  void rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon, at::Tensor& y, at::Tensor& inverse) override {
    auto wide = x.to(at::kFloat);
    inverse = wide.square().mean({1}).add_(epsilon).rsqrt_();
    y = wide.mul(inverse.unsqueeze(1)).mul_(weight).to(x.scalar_type());
  }

  at::Tensor rms_norm_backward(at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& inverse,
                               const at::Tensor& more, const at::Tensor& du, const at::Tensor& a) override {
    auto dy = du.defined() ? add_back(grad, du, a) : grad;
    auto r = inverse.unsqueeze(1);
    auto normed = x.to(at::kFloat).mul(r);
    auto dn = dy.to(at::kFloat).mul(weight);
    auto dx = dn.sub(normed.mul((dn * normed).mean({1}, true))).mul_(r);
    if (more.defined()) dx.add_(more);
    return dx.to(x.scalar_type());
  }

  static void turn(at::Tensor& rows, const Heads& heads, bool back) {
    auto count = heads.queries + heads.keys, half = heads.width / 2;
    auto x = rows.narrow(1, 0, count * heads.width).view({rows.size(0), count, heads.width});
    auto first = x.narrow(2, 0, half), second = x.narrow(2, half, half);
    auto c = heads.cos.index_select(0, heads.positions).unsqueeze(1), s = heads.sin.index_select(0, heads.positions).unsqueeze(1);
    if (back) s = -s;
    auto a = first.to(at::kFloat), b = second.to(at::kFloat);
    auto turned = a * c - b * s;
    second.copy_(b * c + a * s);
    first.copy_(turned);
  }

  at::Tensor add_up_turn(at::Tensor& rows, const at::Tensor& u, const Linear& linear, const Heads& heads) override {
    add_up(rows, u, linear, {});
    turn(rows, heads, false);
    if (heads.repeats == 1) return {};
    auto each = rows.view({rows.size(0), -1, heads.width}).narrow(1, heads.queries, 2 * heads.keys);
    return each.repeat_interleave(heads.repeats, 1).view({rows.size(0), 2, heads.queries, heads.width});
  }

  at::Tensor turn_back(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Heads& heads) override {
    auto once = [&](const at::Tensor& x) { return heads.repeats == 1 ? x : x.unflatten(2, {heads.keys, heads.repeats}).sum(3); };
    auto rows = at::cat({q, once(k), once(v)}, 2).view({-1, heads.columns()});
    turn(rows, heads, true);
    return rows;
  }

  // [gate | up] plus the adapters' outputs.
  at::Tensor with_adapters(const at::Tensor& gates, const at::Tensor& u, const Linear& gate_up) {
    if (!gate_up.adapted()) return gates;
    auto whole = gates.clone();
    PlainKernels::add_up(whole, u, gate_up, {});
    return whole;
  }

  at::Tensor swiglu(const at::Tensor& gates, const at::Tensor& u, const Linear& gate_up) override {
    auto whole = with_adapters(gates, u, gate_up);
    auto width = gates.size(1) / 2;
    return at::silu(whole.narrow(1, 0, width).to(at::kFloat)).mul_(whole.narrow(1, width, width)).to(gates.scalar_type());
  }

  SwigluGrads swiglu_backward(at::Tensor& grad, const at::Tensor& gates, const at::Tensor& u, const Linear& gate_up,
                              const at::Tensor& du, const Linear& down) override {
    auto whole = with_adapters(gates, u, gate_up);
    auto width = gates.size(1) / 2;
    auto gate = whole.narrow(1, 0, width).to(at::kFloat), up = whole.narrow(1, width, width).to(at::kFloat);
    auto dy = (du.defined() ? add_back(grad, du, down.a) : grad).to(at::kFloat), sigmoid = at::sigmoid(gate), silu = gate * sigmoid;
    SwigluGrads grads;
    grads.gates = at::empty_like(gates);
    grads.gates.narrow(1, 0, width).copy_(dy * up * sigmoid * (1 + gate * (1 - sigmoid)));
    grads.gates.narrow(1, width, width).copy_(dy * silu);
    grads.output = (silu * up).to(gates.scalar_type());
    return grads;
  }

  at::Tensor cross_entropy(at::Tensor& logits, const at::Tensor& labels) override {
    auto logs = at::log_softmax(logits, 1, at::kFloat);
    auto counted = labels.ge(0);
    auto places = labels.clamp_min(0).unsqueeze(1);
    auto losses = logs.gather(1, places).squeeze(1).neg_().mul_(counted);
    auto grad = logs.exp_();
    grad.scatter_add_(1, places, at::full({grad.size(0), 1}, -1.0, grad.options()));
    logits.copy_(grad.mul_(counted.unsqueeze(1)));
    return losses;
  }

  at::Tensor down(const at::Tensor& x, const at::Tensor& a, double scale) override { return at::mm(x, a.t()).mul_(scale); }

  void add_up(at::Tensor& y, const at::Tensor& u, const Linear& linear, const at::Tensor& more) override {
    if (more.defined()) y.add_(more);
    for (size_t p = 0; p < linear.b.size(); p++) part(y, linear, p).addmm_(of(u, linear, p), linear.b[p].t());
  }

  at::Tensor back(const at::Tensor& grad, const Linear& linear) override {
    std::vector<at::Tensor> parts;
    for (size_t p = 0; p < linear.b.size(); p++) parts.push_back(at::mm(part(grad, linear, p), linear.b[p]));
    return at::cat(parts, 1).mul_(linear.scale);
  }

  void place(const std::vector<const Linear*>& layers) override {
    for (const auto* layer : layers) {
      auto wide = layer->wide();
      for (size_t p = 0; p < layer->b.size(); p++) {
        const auto& b = layer->b[p];
        auto to = wide.narrow(0, layer->start[p], b.size(0)).narrow(1, layer->weight.size(1) + p * layer->rank(), layer->rank());
        at::mul_out(to, b, at::scalar_tensor(layer->scale, at::kDouble));
      }
    }
  }

  at::Tensor add_back(const at::Tensor& dx, const at::Tensor& du, const at::Tensor& a) override {
    return dx.is_contiguous() ? dx.addmm_(du, a) : at::addmm(dx, du, a);
  }

  void adapter_grads(AdapterGrads& grads, const at::Tensor& du, const at::Tensor& x, const at::Tensor& grad, const at::Tensor& u,
                     const Linear& linear) override {
    if (!grads.a.defined()) grads.a = at::mm(du.t(), x);
    if (!grads.b.empty()) return;
    for (size_t p = 0; p < linear.b.size(); p++) grads.b.push_back(at::mm(part(grad, linear, p).t(), of(u, linear, p)));
  }

  static at::Tensor part(const at::Tensor& rows, const Linear& l, size_t p) { return rows.narrow(1, l.start[p], l.b[p].size(0)); }
  static at::Tensor of(const at::Tensor& u, const Linear& l, size_t p) { return u.narrow(1, p * l.rank(), l.rank()); }
};
