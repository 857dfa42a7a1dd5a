// A Llama block and its loss as three operations of autograd that store little for the backward pass. libtorch's attention comes between
// the first and the second.
#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <array>

#include "guard.h"
#include "llama_kernels.h"
#include "step.h"

using at::Tensor;

namespace {

// ---------- kernels ----------

PlainKernels plain;
LlamaKernels* on_cuda = nullptr;

LlamaKernels& kernels(const Tensor& x) { return x.is_cuda() && on_cuda != nullptr ? *on_cuda : plain; }

// ---------- linear layers with adapters ----------

// The layout of these structs is the same in Rust.
struct RawNf4 {
  Tensor *codes, *scales, *factors, *mean, *levels;
  int64_t out;
};

// Codes as bytes.
struct RawFp8 {
  Tensor *codes, *scales, *column_codes, *column_scales;
};

struct RawLinear {
  Tensor* weight;
  Tensor* a;
  Tensor* const* b;
  const int64_t* start;
  size_t parts;
  double scale;
  const RawNf4* nf4;
  size_t nf4_parts;
  const RawFp8* fp8;
  int64_t group;
  int64_t spare;
};

// Appends a linear layer's tensors to the inputs that autograd follows, in this order.
void push(variable_list& inputs, const RawLinear& raw) {
  inputs.push_back(raw.weight != nullptr ? *raw.weight : Tensor());
  if (raw.parts > 0) inputs.push_back(*raw.a);
  for (size_t p = 0; p < raw.parts; p++) inputs.push_back(*raw.b[p]);
}

// Adapters are computed in the type of activations; they may be stored in a wider type.
Linear in_kind(const RawLinear& raw, at::ScalarType kind) {
  Linear linear;
  if (raw.weight != nullptr) linear.weight = *raw.weight;
  for (size_t p = 0; p < raw.nf4_parts; p++) {
    const auto& w = raw.nf4[p];
    linear.nf4.push_back({*w.codes, *w.scales, *w.factors, *w.mean, *w.levels, w.out});
  }
  if (raw.fp8 != nullptr) {
    auto rows = [](const Tensor& codes, const Tensor& scales) { return Fp8Rows{codes.view(at::kFloat8_e4m3fn), scales}; };
    linear.fp8 = {rows(*raw.fp8->codes, *raw.fp8->scales), rows(*raw.fp8->column_codes, *raw.fp8->column_scales)};
  }
  linear.group = raw.group;
  if (raw.parts == 0) return linear;
  linear.a = raw.a->to(kind);
  for (size_t p = 0; p < raw.parts; p++) {
    linear.b.push_back(raw.b[p]->to(kind));
    linear.start.push_back(raw.start[p]);
  }
  linear.scale = raw.scale;
  linear.spare = raw.spare;
  return linear;
}

// The number of output columns.
int64_t out_of(const RawLinear& raw) {
  if (raw.weight != nullptr) return raw.weight->size(0);
  if (raw.fp8 != nullptr) return raw.fp8->codes->size(0);
  int64_t out = 0;
  for (size_t p = 0; p < raw.nf4_parts; p++) out += raw.nf4[p].out;
  return out;
}

// ---------- joint passes ----------

// In a joint pass of DPO, a tensor of rows holds the policy's rows and below them as many of the reference, so that a product reads its
// matrix once for both. The reference has no adapters, and autograd follows the policy's rows only. In all other passes, there are no
// rows but the policy's.

// The policy's rows. With `copied`, they are copied if others follow, because a view would keep the memory of those as well.
Tensor policy_of(const Tensor& rows, int64_t count, bool copied) {
  if (!rows.defined() || rows.size(0) == count) return rows;
  auto first = rows.narrow(0, 0, count);
  return copied ? first.clone() : first;
}

Tensor reference_of(const Tensor& rows, int64_t count) {
  return rows.defined() ? rows.narrow(0, count, rows.size(0) - count) : rows;
}

struct Applied {
  Linear linear;
  Tensor u;                    // scale x A^T
  at::ScalarType kept;         // the type in which adapters are stored
};

// y = x W^T; also computes u for the first `count` rows, the policy's. Those that follow have no adapters: their u is zero. `x` is
// replaced by what the product reads.
Tensor product(const RawLinear& raw, Tensor& x, Applied& applied, int64_t count) {
  auto& k = kernels(x);
  applied.linear = in_kind(raw, x.scalar_type());
  x = k.seen(applied.linear, x);
  applied.kept = raw.parts > 0 ? raw.a->scalar_type() : x.scalar_type();
  if (applied.linear.adapted()) {
    applied.u = k.down(x, applied.linear.a, applied.linear.scale);
    // One launch. To compute the policy's rows alone and to append zeros would take two, and the GPU has room for so few rows.
    if (count < x.size(0)) reference_of(applied.u, count).zero_();
  }
  return k.product_of(x, applied.linear, true);
}

// Prepares `input_grad` of these layers. B is placed in each backward pass, because the optimizer changes it between them.
void prepare(const Tensor& grad, const std::vector<const Applied*>& layers) {
  std::vector<const Linear*> roomy;
  for (const auto* layer : layers) {
    if (layer->linear.roomy()) roomy.push_back(&layer->linear);
  }
  if (!roomy.empty()) kernels(grad).place(roomy);
}

// The gradient of x without the part through adapters, and the gradient of `u`. Their rows may be further apart than their widths.
Tensor input_grad(const Applied& applied, const Tensor& grad, Tensor& du, bool wanted) {
  auto& k = kernels(grad);
  const auto& linear = applied.linear;
  if (wanted && linear.roomy()) {
    auto both = k.product(grad, linear.wide(), false);
    auto in = linear.weight.size(1);
    du = both.narrow(1, in, linear.a.size(0));
    return both.narrow(1, 0, in);
  }
  if (linear.adapted()) du = k.back(grad, linear);
  return wanted ? k.product_of(grad, linear, false) : Tensor();
}

// Appends the gradients of the layer's own tensors; some may already be in `known`. `grads` holds those of all inputs before them.
void own_grads(const Applied& applied, const Tensor& x, const Tensor& grad, const Tensor& du, const Step& step,
               variable_list& grads, AdapterGrads known = {}) {
  grads.push_back(step.wants(grads.size()) ? at::mm(grad.t(), x) : Tensor());
  if (!applied.linear.adapted()) return;
  kernels(grad).adapter_grads(known, du, x, grad, applied.u, applied.linear);
  grads.push_back(known.a.to(applied.kept));
  for (auto& b : known.b) grads.push_back(b.to(applied.kept));
}

// How many inputs of autograd a layer has.
size_t inputs_of(const Applied& applied) { return applied.linear.adapted() ? 2 + applied.linear.b.size() : 1; }

// Norms are trained only if there are no adapters; `grad` is then complete.
Tensor norm_weight_grad(const Tensor& grad, const Tensor& x, const Tensor& inverse, const Tensor& weight) {
  auto normed = x.to(at::kFloat).mul(inverse.unsqueeze(1));
  return normed.mul_(grad).sum(0).to(weight.scalar_type());
}

Tensor rows_of(const Tensor& x) { return x.reshape({-1, x.size(-1)}); }

// Queries, keys and values as attention reads them, [batch, tokens, heads, head width], from rows and what `add_up_turn` returned for
// them.
std::array<Tensor, 3> read_by_attention(const Tensor& rows, const Tensor& repeated, const Heads& heads, int64_t batch) {
  auto tokens = rows.size(0) / batch;
  auto each = rows.view({batch, tokens, heads.queries + 2 * heads.keys, heads.width});
  auto q = each.narrow(2, 0, heads.queries);
  if (repeated.defined()) {
    auto both = repeated.view({batch, tokens, 2, heads.queries, heads.width});
    return {q, both.select(2, 0), both.select(2, 1)};
  }
  return {q, each.narrow(2, heads.queries, heads.keys), each.narrow(2, heads.queries + heads.keys, heads.keys)};
}

}  // namespace

// Sets the kernels for GPUs, which live as long as the process.
SHIM_API void mc_llama_kernels(LlamaKernels* cuda) { on_cuda = cuda; }

// x [batch, tokens, width] -> queries [batch, tokens, heads, head width], keys and values [batch, tokens, kv heads * repeats, head
// width]: norm, one product for all three, rotation by positions [batch * tokens]. The fourth result is x itself, for the block's other
// use of it, so that this operation adds both gradients of x. In a joint pass, `both` is x and below it the reference's rows, `positions`
// are those of both, and the last three results are the reference's queries, keys and values.
SHIM_API int mc_llama_attention_in(Tensor* input, Tensor* both, Tensor* norm, double epsilon, const RawLinear* qkv, Tensor* cos,
                                   Tensor* sin, Tensor* positions, int64_t heads, int64_t kv_heads, int64_t repeats, Tensor** results) {
  GUARD(-1, {
    variable_list inputs{*input, *norm};
    push(inputs, *qkv);
    auto keeps = recorded(inputs);
    auto applied = std::make_shared<Applied>();
    std::array<Tensor, 3> policy, reference;
    Tensor same, normed, inverse;
    auto x = *input, weight = *norm;
    int64_t batch = x.size(0), count = batch * x.size(1), width = out_of(*qkv) / (heads + 2 * kv_heads);
    Heads all{heads, kv_heads, repeats, width, *cos, *sin, *positions};
    {
      at::AutoDispatchBelowADInplaceOrView guard;
      auto& kernel = kernels(x);
      kernel.rms_norm(rows_of(both != nullptr ? *both : x), weight, epsilon, normed, inverse);
      auto rows = product(*qkv, normed, *applied, count);
      auto repeated = kernel.add_up_turn(rows, applied->u, applied->linear, all);
      policy = read_by_attention(policy_of(rows, count, keeps), policy_of(repeated, count, keeps), all, batch);
      if (both != nullptr) reference = read_by_attention(reference_of(rows, count), reference_of(repeated, count), all, batch);
      normed = policy_of(normed, count, keeps);
      // So small that a copy would cost more than the memory of the other rows.
      for (auto* small : {&inverse, &applied->u, &all.positions}) *small = policy_of(*small, count, false);
      same = x.view(x.sizes());
    }
    if (keeps) {
      record(inputs, {&policy[0], &policy[1], &policy[2], &same}, [=](const Step& step, variable_list&& grads) {
        at::AutoDispatchBelowADInplaceOrView guard;
        auto& kernel = kernels(x);
        auto grad = kernel.turn_back(grads[0], grads[1], grads[2], all);
        variable_list results(2);
        Tensor du;
        bool wanted = step.wants(0) || step.wants(1);
        if (wanted) prepare(grad, {applied.get()});
        auto dn = input_grad(*applied, grad, du, wanted);
        own_grads(*applied, normed, grad, du, step, results);
        if (step.wants(1)) results[1] = norm_weight_grad(dn, rows_of(x), inverse, weight);
        auto more = grads[3].defined() ? rows_of(grads[3]) : Tensor();
        if (step.wants(0)) {
          results[0] = kernel.rms_norm_backward(dn, rows_of(x), weight, inverse, more, du, applied->linear.a).view(x.sizes());
        }
        return results;
      });
    }
    for (size_t i = 0; i < 3; i++) {
      results[i] = new Tensor(policy[i]);
      if (both != nullptr) results[4 + i] = new Tensor(reference[i]);
    }
    results[3] = new Tensor(std::move(same));
    return 0;
  })
}

// x [batch, tokens, width] + the projection of attention's output [batch, tokens, heads * head width]; plus the feed-forward network of
// that sum. In a joint pass, `both` is x and below it the reference's rows, `reference` is the reference's output of attention, and the
// second result is the first one and below it the reference's.
SHIM_API int mc_llama_block_out(Tensor* input, Tensor* attended, Tensor* both, Tensor* reference, const RawLinear* out, Tensor* norm,
                                double epsilon, const RawLinear* gate_up, const RawLinear* down, Tensor** results) {
  GUARD(-1, {
    variable_list inputs{*input, *attended, *norm};
    push(inputs, *out);
    push(inputs, *gate_up);
    push(inputs, *down);
    auto keeps = recorded(inputs);
    struct Kept {
      Applied out, gate_up, down;
      Tensor attended, middle, normed, inverse, gates;
    };
    auto kept = std::make_shared<Kept>();
    auto weight = *norm;
    auto sizes = input->sizes().vec();
    int64_t count = sizes[0] * sizes[1];
    Tensor result, joint;
    {
      at::AutoDispatchBelowADInplaceOrView guard;
      auto& kernel = kernels(*input);
      auto read = rows_of(*attended);
      if (both != nullptr) read = at::cat({read, rows_of(*reference)});
      auto middle = product(*out, read, kept->out, count);
      // Joint passes have adapters, and beside adapters products read attention's output as it is.
      kept->attended = both != nullptr ? rows_of(*attended) : read;
      read.reset();
      Tensor normed, inverse;
      auto x = rows_of(both != nullptr ? *both : *input);
      kernel.add_up_norm(middle, kept->out.u, kept->out.linear, x, weight, epsilon, normed, inverse);
      auto gates = product(*gate_up, normed, kept->gate_up, count);
      kept->normed = policy_of(normed, count, keeps);
      normed.reset();
      auto hidden = kernel.swiglu(gates, kept->gate_up.u, kept->gate_up.linear);
      kept->gates = policy_of(gates, count, keeps);
      gates.reset();
      result = product(*down, hidden, kept->down, count);
      kernel.add_up(result, kept->down.u, kept->down.linear, middle);
      kept->middle = policy_of(middle, count, keeps);
      kept->inverse = policy_of(inverse, count, false);
      for (auto* applied : {&kept->out, &kept->gate_up, &kept->down}) applied->u = policy_of(applied->u, count, false);
      if (both != nullptr) joint = result.view(both->sizes());
      result = policy_of(result, count, keeps).view(sizes);
    }
    if (keeps) {
      record(inputs, {&result}, [=](const Step& step, variable_list&& grads) {
        at::AutoDispatchBelowADInplaceOrView guard;
        auto& kernel = kernels(grads[0]);
        auto grad = rows_of(grads[0]);
        Tensor du_down, du_gates, du_out;
        // The lists start with empty places for the inputs that come first, so that each layer finds its inputs at their own places.
        variable_list results(3), of_gates(3 + inputs_of(kept->out)), of_down(of_gates.size() + inputs_of(kept->gate_up));
        auto room = std::pair(of_gates.size(), of_down.size());
        prepare(grad, {&kept->out, &kept->gate_up, &kept->down});
        auto dh = input_grad(kept->down, grad, du_down, true);
        auto back = kernel.swiglu_backward(dh, kept->gates, kept->gate_up.u, kept->gate_up.linear, du_down, kept->down.linear);
        if (back.output.defined()) back.output = kernel.seen(kept->down.linear, back.output);
        kept->gates.reset();
        dh.reset();
        own_grads(kept->down, back.output, grad, du_down, step, of_down, std::move(back.down));
        du_down.reset();
        back.output.reset();
        auto dn = input_grad(kept->gate_up, back.gates, du_gates, true);
        own_grads(kept->gate_up, kept->normed, back.gates, du_gates, step, of_gates, std::move(back.gate_up));
        back.gates.reset();
        if (step.wants(2)) results[2] = norm_weight_grad(dn, kept->middle, kept->inverse, weight);
        auto dm = kernel.rms_norm_backward(dn, kept->middle, weight, kept->inverse, grad, du_gates, kept->gate_up.linear.a);
        dn.reset();
        du_gates.reset();
        auto da = input_grad(kept->out, dm, du_out, step.wants(1));
        if (da.defined() && du_out.defined()) da = kernel.add_back(da, du_out, kept->out.linear.a);
        own_grads(kept->out, kept->attended, dm, du_out, step, results);
        results.insert(results.end(), of_gates.begin() + room.first, of_gates.end());
        results.insert(results.end(), of_down.begin() + room.second, of_down.end());
        if (step.wants(0)) results[0] = dm.view(sizes);
        if (da.defined()) results[1] = da.view({sizes[0], sizes[1], da.size(1)});
        return results;
      });
    }
    results[0] = new Tensor(std::move(result));
    if (both != nullptr) results[1] = new Tensor(std::move(joint));
    return 0;
  })
}

// x [.., in] -> x W^T [.., out] for a layer whose matrix is converted before products read it. The backward pass converts it again.
SHIM_API Tensor* mc_llama_product(Tensor* input, const RawLinear* linear) {
  GUARD(nullptr, {
    variable_list inputs{*input};
    push(inputs, *linear);
    auto applied = std::make_shared<Applied>();
    auto sizes = input->sizes().vec();
    Tensor x, y;
    {
      at::AutoDispatchBelowADInplaceOrView guard;
      x = rows_of(*input);
      y = product(*linear, x, *applied, x.size(0));
      auto out = sizes;
      out.back() = y.size(1);
      y = y.view(out);
    }
    if (recorded(inputs)) {
      record(inputs, {&y}, [=](const Step& step, variable_list&& grads) {
        at::AutoDispatchBelowADInplaceOrView guard;
        auto grad = rows_of(grads[0]);
        variable_list results(1);
        Tensor du;
        auto dx = input_grad(*applied, grad, du, step.wants(0));
        own_grads(*applied, x, grad, du, step, results);
        if (dx.defined()) results[0] = dx.view(sizes);
        return results;
      });
    }
    return new Tensor(std::move(y));
  })
}

// The matrix of a layer in the form that products read.
SHIM_API Tensor* mc_llama_dense(const RawLinear* linear) {
  GUARD(nullptr, {
    at::NoGradGuard without;
    auto whole = in_kind(*linear, at::kFloat);
    const auto& stored = whole.fp8.defined() ? whole.fp8.rows.codes : whole.nf4.empty() ? whole.weight : whole.nf4[0].codes;
    return new Tensor(kernels(stored).dense(whole));
  })
}

// Rows of `input` [rows, width] in FP8: codes as bytes, and scales.
SHIM_API int mc_llama_quantise_rows(Tensor* input, Tensor** results) {
  GUARD(-1, {
    at::NoGradGuard without;
    auto rows = kernels(*input).quantise_rows(*input);
    results[0] = new Tensor(rows.codes.view(at::kByte));
    results[1] = new Tensor(std::move(rows.scales));
    return 0;
  })
}

// The rows that products of a fake-quantised layer read in place of `input`.
SHIM_API Tensor* mc_llama_fake_quantise(Tensor* input) {
  GUARD(nullptr, {
    at::NoGradGuard without;
    return new Tensor(kernels(*input).fake_quantise_tokens(*input));
  })
}

// The cross entropy of each row of `input` [rows, width], in fp32, or 0 if its label is below 0: norm, product with `weight` [vocabulary,
// width], softmax. It works on one chunk of rows at a time, so that few logits are stored. If `weight` is frozen, the gradients are
// computed in the same pass; if it is trained, the backward pass computes the logits again. `group` as in a linear layer. In a joint pass,
// `both` is `input` and below it the reference's rows, and there are labels and losses of both; no gradient depends on the reference's.
SHIM_API Tensor* mc_llama_losses(Tensor* input, Tensor* both, Tensor* norm, double epsilon, Tensor* weight, int64_t group,
                                 Tensor* labels, int64_t chunk) {
  GUARD(nullptr, {
    variable_list inputs{*input, *norm, *weight};
    auto x = *input, scale = *norm, targets = *labels;
    Linear layer;
    layer.weight = *weight;
    layer.group = group;
    // Calls `use` with the first row, the rows, the losses and the gradients of the logits of each chunk.
    auto each_chunk = [=](const Tensor& matrix, const Tensor& normed,
                          const std::function<void(int64_t, int64_t, Tensor&&, Tensor&&)>& use) {
      auto& kernel = kernels(normed);
      for (int64_t first = 0; first < normed.size(0); first += chunk) {
        auto rows = std::min(chunk, normed.size(0) - first);
        auto logits = kernel.product(normed.narrow(0, first, rows), matrix, true);
        auto losses = kernel.cross_entropy(logits, targets.narrow(0, first, rows));
        use(first, rows, std::move(losses), std::move(logits));
      }
    };
    bool at_once = recorded(inputs) && !weight->requires_grad();
    int64_t count = x.size(0);
    Tensor losses, dn;
    {
      at::AutoDispatchBelowADInplaceOrView guard;
      Tensor normed, inverse;
      kernels(x).rms_norm(both != nullptr ? *both : x, scale, epsilon, normed, inverse);
      normed = kernels(x).seen(layer, normed);
      auto matrix = kernels(x).dense(layer);
      losses = at::empty({normed.size(0)}, x.options().dtype(at::kFloat));
      if (at_once) dn = at::empty_like(x);
      each_chunk(matrix, normed, [&](int64_t first, int64_t rows, Tensor&& chunk_losses, Tensor&& d) {
        losses.narrow(0, first, rows).copy_(chunk_losses);
        auto learned = std::min(rows, count - first);
        if (at_once && learned > 0) dn.narrow(0, first, learned).copy_(kernels(x).product(policy_of(d, learned, false), matrix, false));
      });
    }
    if (recorded(inputs)) {
      record(inputs, {&losses}, [=](const Step& step, variable_list&& grads) {
        at::AutoDispatchBelowADInplaceOrView guard;
        auto& kernel = kernels(x);
        Tensor normed, inverse, grad;
        kernel.rms_norm(x, scale, epsilon, normed, inverse);
        variable_list results(3);
        auto by_row = policy_of(grads[0], count, false).unsqueeze(1);
        if (at_once) {
          grad = dn.mul(by_row).to(x.scalar_type());
        } else {
          grad = at::empty_like(normed);
          normed = kernel.seen(layer, normed);
          auto matrix = kernel.dense(layer);
          auto dw = at::zeros_like(matrix);
          each_chunk(matrix, normed, [&](int64_t first, int64_t rows, Tensor&&, Tensor&& d) {
            d.mul_(by_row.narrow(0, first, rows));
            grad.narrow(0, first, rows).copy_(kernel.product(d, matrix, false));
            dw.addmm_(d.t(), normed.narrow(0, first, rows));
          });
          results[2] = dw;
        }
        if (step.wants(1)) results[1] = norm_weight_grad(grad, x, inverse, scale);
        if (step.wants(0)) results[0] = kernel.rms_norm_backward(grad, x, scale, inverse, {}, {}, {});
        return results;
      });
    }
    return new Tensor(std::move(losses));
  })
}
