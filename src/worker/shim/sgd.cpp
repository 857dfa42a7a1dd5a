// SGD with momentum over a fixed list of parameters, and dynamic loss scaling on the device.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <memory>
#include <optional>
#include <vector>

#include "guard.h"

namespace {

enum Implementation { FUSED = 0, FOREACH = 1, LOOP = 2 };

struct Sgd {
  std::vector<at::Tensor> parameters;  // with autograd's metadata: gradients are found here
  std::vector<at::Tensor> values;      // the same storage, detached
  std::vector<at::Tensor> momenta;
  std::vector<at::Tensor> gradients;   // filled anew each step
  double learning_rate;
  double momentum;
  int implementation;
  int64_t relaid = 0;  // gradients that had to be copied into their parameter's strides

  void gather() {
    gradients.clear();
    for (size_t i = 0; i < parameters.size(); i++) {
      const at::Tensor& gradient = parameters[i].grad();
      TORCH_CHECK(gradient.defined(), "parameter ", i, " has no gradient");
      if (same_strides(gradient, values[i])) {
        gradients.push_back(gradient);
      } else {
        // One kernel for all parameters walks both by one index.
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

  void update(const std::optional<at::Tensor>& found_inf) {
    if (implementation == FUSED) {
      at::_fused_sgd_(values, gradients, momenta, /*weight_decay=*/0.0, momentum, learning_rate, /*dampening=*/0.0,
                      /*nesterov=*/false, /*maximize=*/false, /*is_first_step=*/false, /*grad_scale=*/{}, found_inf);
      return;
    }
    // These can only be skipped by the host, which waits for the device: PyTorch's GradScaler does the same.
    if (found_inf && found_inf->item<float>() != 0.0f) return;
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
};

// The rules and numbers of torch.amp.GradScaler.
struct LossScale {
  at::Tensor scale, growth_tracker, found_inf, skipped;
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

SHIM_API Sgd* mc_sgd_new(at::Tensor** parameters, size_t count, double learning_rate, double momentum, int implementation) {
  GUARD(nullptr, {
    at::NoGradGuard no_grad;
    auto sgd = std::make_unique<Sgd>();
    for (size_t i = 0; i < count; i++) {
      sgd->parameters.push_back(*parameters[i]);
      sgd->values.push_back(parameters[i]->detach());
      // Momentum 0 before the first step gives PyTorch's first step, which takes the gradient as the momentum.
      sgd->momenta.push_back(at::zeros_like(sgd->values.back()));
    }
    sgd->gradients.reserve(count);
    sgd->learning_rate = learning_rate;
    sgd->momentum = momentum;
    sgd->implementation = implementation;
    return sgd.release();
  })
}

SHIM_API void mc_sgd_free(Sgd* sgd) { delete sgd; }

SHIM_API int mc_sgd_zero(Sgd* sgd) {
  GUARD(-1, {
    for (auto& parameter : sgd->parameters) parameter.mutable_grad().reset();
    return 0;
  })
}

// One update from the gradients that are there; with a scale, gradients are unscaled and an overflow skips the update.
SHIM_API int mc_sgd_step(Sgd* sgd, LossScale* scale) {
  GUARD(-1, {
    at::NoGradGuard no_grad;
    sgd->gather();
    if (scale == nullptr) {
      sgd->update({});
    } else {
      scale->found_inf.zero_();
      at::_amp_foreach_non_finite_check_and_unscale_(sgd->gradients, scale->found_inf, scale->scale.reciprocal());
      sgd->update(scale->found_inf);
      at::_amp_update_scale_(scale->scale, scale->growth_tracker, scale->found_inf, LossScale::growth,
                             LossScale::backoff, LossScale::interval);
      scale->skipped.add_(scale->found_inf);
    }
    sgd->gradients.clear();
    return 0;
  })
}

SHIM_API int64_t mc_sgd_relaid(Sgd* sgd) { return sgd->relaid; }

SHIM_API LossScale* mc_scale_new(int cuda_index) {
  GUARD(nullptr, {
    return new LossScale(cuda_index >= 0 ? at::Device(at::kCUDA, cuda_index) : at::Device(at::kCPU));
  })
}

SHIM_API void mc_scale_free(LossScale* scale) { delete scale; }

SHIM_API at::Tensor* mc_scale_apply(LossScale* scale, at::Tensor* loss) {
  GUARD(nullptr, { return new at::Tensor(*loss * scale->scale); })
}

// Waits for the device: the scale, and how many updates were skipped so far.
SHIM_API int mc_scale_read(LossScale* scale, double* value, double* skipped) {
  GUARD(-1, {
    *value = scale->scale.item<float>();
    *skipped = scale->skipped.item<double>();
    return 0;
  })
}
