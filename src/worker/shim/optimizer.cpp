// SGD with momentum and AdamW over fixed lists of parameters, and dynamic loss scaling on the device.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <memory>
#include <optional>
#include <vector>

#include "group.h"
#include "guard.h"

namespace {

enum Implementation { FUSED = 0, FOREACH = 1, LOOP = 2 };

using Tensors = std::vector<at::Tensor>;

struct Optimizer {
  Tensors parameters;  // with autograd's metadata, which holds the gradients
  Tensors values;      // the same storage, detached
  Tensors gradients;   // collected in each step
  int implementation;
  int64_t relaid = 0;  // number of gradients that were copied because their strides differed from their parameter's

  Optimizer(at::Tensor** given, size_t count, int implementation) : implementation(implementation) {
    for (size_t i = 0; i < count; i++) {
      parameters.push_back(*given[i]);
      values.push_back(given[i]->detach());
    }
    gradients.reserve(count);
  }
  virtual ~Optimizer() = default;

  // One update from `gradients`, unless an overflow was detected in them.
  virtual void update(const std::optional<at::Tensor>& found_inf) = 0;

  // The tensors that a resumed run overwrites to continue.
  virtual Tensors state() { return {}; }

  Tensors zeros() const {
    Tensors zeros;
    for (const auto& value : values) zeros.push_back(at::zeros_like(value));
    return zeros;
  }

  void gather() {
    gradients.clear();
    for (size_t i = 0; i < parameters.size(); i++) {
      const at::Tensor& gradient = parameters[i].grad();
      TORCH_CHECK(gradient.defined(), "parameter ", i, " has no gradient");
      if (same_strides(gradient, values[i])) {
        gradients.push_back(gradient);
      } else {
        // The kernel for all parameters uses the same index for gradient and parameter.
        gradients.push_back(at::empty_like(values[i]).copy_(gradient));
        relaid++;
      }
    }
  }

  static bool same_strides(const at::Tensor& a, const at::Tensor& b) {
    auto sizes = a.sizes(), left = a.strides(), right = b.strides();
    for (size_t d = 0; d < sizes.size(); d++) {
      if (sizes[d] != 1 && left[d] != right[d]) return false;
    }
    return true;
  }
};

// Only a fused update can be skipped on the device. For other updates the host waits for the result, as in PyTorch's GradScaler.
bool overflowed(const std::optional<at::Tensor>& found_inf) { return found_inf && found_inf->item<float>() != 0.0f; }

struct Sgd : Optimizer {
  // A momentum of 0 before the first step gives the same first step as PyTorch, which uses the gradient as the momentum.
  Tensors momenta = zeros();
  double learning_rate, momentum;

  Sgd(at::Tensor** given, size_t count, int implementation, double learning_rate, double momentum)
      : Optimizer(given, count, implementation), learning_rate(learning_rate), momentum(momentum) {}

  void update(const std::optional<at::Tensor>& found_inf) override {
    if (implementation == FUSED) {
      at::_fused_sgd_(values, gradients, momenta, /*weight_decay=*/0.0, momentum, learning_rate, /*dampening=*/0.0,
                      /*nesterov=*/false, /*maximize=*/false, /*is_first_step=*/false, /*grad_scale=*/{}, found_inf);
      return;
    }
    if (overflowed(found_inf)) return;
    if (implementation == FOREACH) {
      at::_foreach_mul_(momenta, momentum);
      at::_foreach_add_(momenta, gradients, 1);
      at::_foreach_add_(values, momenta, -learning_rate);
    } else {
      for (size_t i = 0; i < values.size(); i++) {
        momenta[i].mul_(momentum).add_(gradients[i]);
        values[i].add_(momenta[i], -learning_rate);
      }
    }
  }

  Tensors state() override { return momenta; }
};

// AdamW as in torch.optim.AdamW (Loshchilov & Hutter, Decoupled weight decay regularization, arXiv 1711.05101). The learning rate and the
// number of updates are stored on the device, so that a CUDA graph uses their current values.
struct AdamW : Optimizer {
  static constexpr double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  Tensors means = zeros(), squares = zeros();
  at::Tensor learning_rate, updates, norm;
  double weight_decay;
  bool has_norm;

  AdamW(at::Tensor** given, size_t count, int implementation, double weight_decay, bool has_norm)
      : Optimizer(given, count, implementation), weight_decay(weight_decay), has_norm(has_norm) {
    TORCH_CHECK(count > 0, "AdamW was given no parameters");
    auto options = values[0].options().dtype(at::kFloat);
    learning_rate = at::zeros({}, options);
    updates = at::zeros({}, options);
  }

  void update(const std::optional<at::Tensor>& found_inf) override {
    if (has_norm) norm = at::stack(at::_foreach_norm(gradients, 2, at::kFloat)).norm();
    if (implementation == FUSED) {
      updates.add_(1);
      at::_fused_adamw_(values, gradients, means, squares, {}, Tensors(values.size(), updates), learning_rate, beta1, beta2,
                        weight_decay, epsilon, /*amsgrad=*/false, /*maximize=*/false, /*grad_scale=*/{}, found_inf);
      if (found_inf) updates.sub_(*found_inf);
      return;
    }
    if (overflowed(found_inf)) return;
    updates.add_(1);
    auto correction = [&](double beta) { return 1 - at::pow(beta, updates); };
    auto step = learning_rate / correction(beta1), root = correction(beta2).sqrt(), decay = 1 - learning_rate * weight_decay;
    if (implementation == FOREACH) {
      at::_foreach_mul_(values, decay);
      at::_foreach_lerp_(means, gradients, 1 - beta1);
      at::_foreach_mul_(squares, beta2);
      at::_foreach_addcmul_(squares, gradients, gradients, 1 - beta2);
      auto divisors = at::_foreach_sqrt(squares);
      at::_foreach_div_(divisors, root);
      at::_foreach_add_(divisors, epsilon);
      auto changes = at::_foreach_div(means, divisors);
      at::_foreach_mul_(changes, step);
      at::_foreach_sub_(values, changes);
    } else {
      for (size_t i = 0; i < values.size(); i++) {
        values[i].mul_(decay);
        means[i].lerp_(gradients[i], 1 - beta1);
        squares[i].mul_(beta2).addcmul_(gradients[i], gradients[i], 1 - beta2);
        auto divisor = (squares[i].sqrt() / root).add_(epsilon);
        values[i].sub_(means[i].div(divisor).mul_(step));
      }
    }
  }

  Tensors state() override {
    Tensors all = means;
    all.insert(all.end(), squares.begin(), squares.end());
    all.push_back(updates);
    return all;
  }
};

// The rules and constants of torch.amp.GradScaler.
struct LossScale {
  at::Tensor scale, growth_tracker, found_inf, skipped;
  c10::intrusive_ptr<c10d::ProcessGroup> group;  // the ranks that hold parts of the gradients
  static constexpr double initial = 65536.0, growth = 2.0, backoff = 0.5;
  static constexpr int64_t interval = 2000;

  explicit LossScale(at::Device device) {
    auto options = at::TensorOptions().device(device).dtype(at::kFloat);
    scale = at::full({}, initial, options);
    growth_tracker = at::zeros({}, options.dtype(at::kInt));
    found_inf = at::zeros({}, options);
    skipped = at::zeros({}, options.dtype(at::kDouble));
  }
};

}  // namespace

SHIM_API Optimizer* mc_sgd_new(at::Tensor** parameters, size_t count, int implementation, double learning_rate, double momentum) {
  GUARD(nullptr, {
    at::NoGradGuard no_grad;
    return new Sgd(parameters, count, implementation, learning_rate, momentum);
  })
}

// With `has_norm`, each update also computes the norm of all gradients. Without weight decay it is Adam.
SHIM_API Optimizer* mc_adamw_new(at::Tensor** parameters, size_t count, int implementation, double weight_decay, int has_norm) {
  GUARD(nullptr, {
    at::NoGradGuard no_grad;
    return new AdamW(parameters, count, implementation, weight_decay, has_norm != 0);
  })
}

SHIM_API void mc_optimizer_free(Optimizer* optimizer) { delete optimizer; }

SHIM_API int mc_optimizer_zero(Optimizer* optimizer) {
  GUARD(-1, {
    for (auto& parameter : optimizer->parameters) parameter.mutable_grad().reset();
    return 0;
  })
}

// One update from the present gradients. With a scale, gradients are unscaled, and an overflow skips the update.
SHIM_API int mc_optimizer_step(Optimizer* optimizer, LossScale* scale) {
  GUARD(-1, {
    at::NoGradGuard no_grad;
    optimizer->gather();
    if (scale == nullptr) {
      optimizer->update({});
    } else {
      scale->found_inf.zero_();
      at::_amp_foreach_non_finite_check_and_unscale_(optimizer->gradients, scale->found_inf, scale->scale.reciprocal());
      if (scale->group) {
        c10d::AllreduceOptions options;
        options.reduceOp = c10d::ReduceOp::MAX;
        std::vector<at::Tensor> overflow{scale->found_inf};
        scale->group->allreduce(overflow, options)->wait();
      }
      optimizer->update(scale->found_inf);
      at::_amp_update_scale_(scale->scale, scale->growth_tracker, scale->found_inf, LossScale::growth,
                             LossScale::backoff, LossScale::interval);
      scale->skipped.add_(scale->found_inf);
    }
    optimizer->gradients.clear();
    return 0;
  })
}

SHIM_API int64_t mc_optimizer_relaid(Optimizer* optimizer) { return optimizer->relaid; }

// Returns the number of tensors in its state, and writes the first `room` of them.
SHIM_API int64_t mc_optimizer_state(Optimizer* optimizer, at::Tensor** state, size_t room) {
  GUARD(-1, {
    auto all = optimizer->state();
    for (size_t i = 0; i < all.size() && i < room; i++) state[i] = new at::Tensor(all[i]);
    return static_cast<int64_t>(all.size());
  })
}

// Sets the learning rate of the next updates.
SHIM_API int mc_adamw_learning_rate(Optimizer* optimizer, double learning_rate) {
  GUARD(-1, {
    dynamic_cast<AdamW&>(*optimizer).learning_rate.fill_(learning_rate);
    return 0;
  })
}

// The learning rate, on the device.
SHIM_API at::Tensor* mc_adamw_rate(Optimizer* optimizer) {
  GUARD(nullptr, { return new at::Tensor(dynamic_cast<AdamW&>(*optimizer).learning_rate); })
}

// The 2-norm of all gradients of the last update, on the device.
SHIM_API at::Tensor* mc_adamw_norm(Optimizer* optimizer) {
  GUARD(nullptr, { return new at::Tensor(dynamic_cast<AdamW&>(*optimizer).norm); })
}

SHIM_API LossScale* mc_scale_new(int cuda_index) {
  GUARD(nullptr, {
    return new LossScale(cuda_index >= 0 ? at::Device(at::kCUDA, cuda_index) : at::Device(at::kCPU));
  })
}

// From now on, an overflow on any rank counts on all ranks.
SHIM_API int mc_scale_share(LossScale* scale, Group* group) {
  GUARD(-1, {
    scale->group = group->group;
    return 0;
  })
}

SHIM_API void mc_scale_free(LossScale* scale) { delete scale; }

SHIM_API at::Tensor* mc_scale_apply(LossScale* scale, at::Tensor* loss) {
  GUARD(nullptr, { return new at::Tensor(*loss * scale->scale); })
}

// Waits for the device, and returns the scale and the number of skipped updates.
SHIM_API int mc_scale_read(LossScale* scale, double* value, double* skipped) {
  GUARD(-1, {
    *value = scale->scale.item<float>();
    *skipped = scale->skipped.item<double>();
    return 0;
  })
}

// The scale, the growth tracker and the number of skipped updates.
SHIM_API int mc_scale_state(LossScale* scale, at::Tensor** state) {
  GUARD(-1, {
    state[0] = new at::Tensor(scale->scale);
    state[1] = new at::Tensor(scale->growth_tracker);
    state[2] = new at::Tensor(scale->skipped);
    return 0;
  })
}
