// What a Llama block computes between its matrix products, for one kind of device. Rows are tokens; a tensor of rows may have a
// longer stride than its width, and its columns lie together.
#pragma once
#include <ATen/ATen.h>

// One matrix product whose output columns may be several projections side by side, and their low-rank adapters:
// y = x W^T, and for each part p, y[:, start_p ..] += scale (x A_p^T) B_p^T, where the A_p are the rows of one matrix.
struct Linear {
  at::Tensor weight;             // [out, in]
  at::Tensor a;                  // [parts * rank, in], where there are adapters
  std::vector<at::Tensor> b;     // of each part [its width, rank]
  std::vector<int64_t> start;    // its first column
  double scale = 0;

  bool adapted() const { return !b.empty(); }
  int64_t rank() const { return b[0].size(1); }
};

struct LlamaKernels {
  virtual ~LlamaKernels() = default;

  // `down`, `back`, `grad_a` and `grad_b` may run beside what follows them. They begin after all that was asked for before `fork`;
  // what is asked for after `join` begins after them. Their tensors must live until then.
  virtual void fork() {}
  virtual void join() {}

  // x W^T, or x W.
  virtual at::Tensor product(const at::Tensor& x, const at::Tensor& weight, bool transposed) = 0;

  // y = x / rms(x) * weight, and 1 / rms(x) of each row in fp32.
  virtual void rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon, at::Tensor& y, at::Tensor& inverse) = 0;
  // The gradient of x, plus `more` where it is defined.
  virtual at::Tensor rms_norm_backward(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight,
                                       const at::Tensor& inverse, const at::Tensor& more) = 0;

  // Turns the first `heads` heads of each row in place, by the row's position; back with `inverse`. cos and sin: [positions, width / 2].
  virtual void rotate(at::Tensor& rows, int64_t heads, int64_t width, const at::Tensor& cos, const at::Tensor& sin,
                      const at::Tensor& positions, bool inverse) = 0;

  // silu(gate) * up of rows [gate | up].
  virtual at::Tensor swiglu(const at::Tensor& gate_up) = 0;
  // The same after `add_up`.
  virtual at::Tensor add_up_swiglu(at::Tensor& gate_up, const at::Tensor& u, const Linear& linear) {
    add_up(gate_up, u, linear, {});
    return swiglu(gate_up);
  }
  // The gradient of `gate_up`, and what `swiglu` gave. Where `du` is defined, du A is added to `grad` first.
  virtual at::Tensor swiglu_backward(at::Tensor& grad, const at::Tensor& gate_up, const at::Tensor& du, const at::Tensor& a,
                                     at::Tensor& output) = 0;

  // The cross entropy of each row in fp32, 0 where its label is below 0; `logits` become its gradient.
  virtual at::Tensor cross_entropy(at::Tensor& logits, const at::Tensor& labels) = 0;

  // scale x A^T: [rows, parts * rank].
  virtual at::Tensor down(const at::Tensor& x, const at::Tensor& a, double scale) = 0;
  // y[:, part] += u_p B_p^T, and y += more where that is defined.
  virtual void add_up(at::Tensor& y, const at::Tensor& u, const Linear& linear, const at::Tensor& more) = 0;
  // scale dy[:, part] B_p, side by side: [rows, parts * rank].
  virtual at::Tensor back(const at::Tensor& grad, const Linear& linear) = 0;
  // dx += du A.
  virtual void add_back(at::Tensor& dx, const at::Tensor& du, const at::Tensor& a) = 0;
  // du^T x: [parts * rank, in].
  virtual at::Tensor grad_a(const at::Tensor& du, const at::Tensor& x) = 0;
  // dy[:, part]^T u_p for each part.
  virtual std::vector<at::Tensor> grad_b(const at::Tensor& grad, const at::Tensor& u, const Linear& linear) = 0;
};

// Each step as libtorch's operations.
struct PlainKernels : LlamaKernels {
  at::Tensor product(const at::Tensor& x, const at::Tensor& weight, bool transposed) override {
    return at::mm(x, transposed ? weight.t() : weight);
  }

  void rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon, at::Tensor& y, at::Tensor& inverse) override {
    auto wide = x.to(at::kFloat);
    inverse = wide.square().mean({1}).add_(epsilon).rsqrt_();
    y = wide.mul(inverse.unsqueeze(1)).mul_(weight).to(x.scalar_type());
  }

  at::Tensor rms_norm_backward(const at::Tensor& grad, const at::Tensor& x, const at::Tensor& weight, const at::Tensor& inverse,
                           const at::Tensor& more) override {
    auto r = inverse.unsqueeze(1);
    auto normed = x.to(at::kFloat).mul(r);
    auto dn = grad.to(at::kFloat).mul(weight);
    auto dx = dn.sub(normed.mul((dn * normed).mean({1}, true))).mul_(r);
    if (more.defined()) dx.add_(more);
    return dx.to(x.scalar_type());
  }

  void rotate(at::Tensor& rows, int64_t heads, int64_t width, const at::Tensor& cos, const at::Tensor& sin, const at::Tensor& positions,
              bool inverse) override {
    auto x = rows.narrow(1, 0, heads * width).view({rows.size(0), heads, width});
    auto first = x.narrow(2, 0, width / 2), second = x.narrow(2, width / 2, width / 2);
    auto c = cos.index_select(0, positions).unsqueeze(1), s = sin.index_select(0, positions).unsqueeze(1);
    if (inverse) s = -s;
    auto a = first.to(at::kFloat), b = second.to(at::kFloat);
    auto turned = a * c - b * s;
    second.copy_(b * c + a * s);
    first.copy_(turned);
  }

  at::Tensor swiglu(const at::Tensor& gate_up) override {
    auto width = gate_up.size(1) / 2;
    auto gate = gate_up.narrow(1, 0, width).to(at::kFloat);
    return at::silu(gate).mul_(gate_up.narrow(1, width, width)).to(gate_up.scalar_type());
  }

  at::Tensor swiglu_backward(at::Tensor& grad, const at::Tensor& gate_up, const at::Tensor& du, const at::Tensor& a,
                             at::Tensor& output) override {
    if (du.defined()) add_back(grad, du, a);
    auto width = gate_up.size(1) / 2;
    auto gate = gate_up.narrow(1, 0, width).to(at::kFloat), up = gate_up.narrow(1, width, width).to(at::kFloat);
    auto dy = grad.to(at::kFloat), sigmoid = at::sigmoid(gate), silu = gate * sigmoid;
    auto d = at::empty_like(gate_up);
    d.narrow(1, 0, width).copy_(dy * up * sigmoid * (1 + gate * (1 - sigmoid)));
    d.narrow(1, width, width).copy_(dy * silu);
    output = (silu * up).to(gate_up.scalar_type());
    return d;
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

  void add_back(at::Tensor& dx, const at::Tensor& du, const at::Tensor& a) override { dx.addmm_(du, a); }

  at::Tensor grad_a(const at::Tensor& du, const at::Tensor& x) override { return at::mm(du.t(), x); }

  std::vector<at::Tensor> grad_b(const at::Tensor& grad, const at::Tensor& u, const Linear& linear) override {
    std::vector<at::Tensor> grads;
    for (size_t p = 0; p < linear.b.size(); p++) grads.push_back(at::mm(part(grad, linear, p).t(), of(u, linear, p)));
    return grads;
  }

  static at::Tensor part(const at::Tensor& rows, const Linear& l, size_t p) { return rows.narrow(1, l.start[p], l.b[p].size(0)); }
  static at::Tensor of(const at::Tensor& u, const Linear& l, size_t p) { return u.narrow(1, p * l.rank(), l.rank()); }
};
