// Activation checkpointing: a part of the forward pass stores only its input, and is computed again in the backward pass.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <memory>

#include "guard.h"

using at::Tensor;
using torch::autograd::variable_list;

namespace {

// `call(owner, input, text, room)` returns a new tensor, or writes its error's text and returns null.
using Call = Tensor* (*)(void*, Tensor*, char*, size_t);

struct Again : torch::autograd::Node {
  std::shared_ptr<void> owner;
  Call call;
  Tensor input;

  Tensor run(Tensor x) const {
    char text[512] = "";
    std::unique_ptr<Tensor> output(call(owner.get(), &x, text, sizeof text));
    TORCH_CHECK(output, text);
    return *output;
  }

  variable_list apply(variable_list&& grads) override {
    at::AutoGradMode with(true);
    auto x = input.detach().requires_grad_(task_should_compute_output(0));
    input.reset();
    // The gradients of parameters are accumulated where a plain backward pass accumulates them.
    torch::autograd::backward({run(x)}, {grads[0]});
    return {x.grad(), Tensor()};
  }
  void release_variables() override { input.reset(); }
};

}  // namespace

SHIM_API Tensor* mc_checkpoint(Tensor* input, Call call, void (*release)(void*), void* owner) {
  GUARD(nullptr, {
    auto again = std::shared_ptr<Again>(new Again(), torch::autograd::deleteNode);
    again->owner = std::shared_ptr<void>(owner, release);
    again->call = call;
    Tensor output;
    {
      at::NoGradGuard without;
      output = again->run(*input);
    }
    if (at::GradMode::is_enabled()) {
      again->input = *input;
      // The parameters are used only inside the part, so autograd would skip the part if its input needs no gradient. This tensor
      // prevents that.
      auto anchor = at::zeros({}, at::kFloat).requires_grad_();
      again->set_next_edges(torch::autograd::collect_next_edges(*input, anchor));
      torch::autograd::set_history(output, again);
    }
    return new Tensor(std::move(output));
  })
}
