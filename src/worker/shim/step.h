// Operations of autograd whose backward pass is a closure.
#pragma once
#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <functional>
#include <memory>

using torch::autograd::variable_list;

// A node whose backward pass is a closure over the tensors that it needs. It runs once, and then frees them.
struct Step : torch::autograd::Node {
  std::function<variable_list(const Step&, variable_list&&)> run;

  variable_list apply(variable_list&& grads) override {
    TORCH_CHECK(run, "a second backward pass through an operation whose tensors were freed by the first");
    auto once = std::exchange(run, nullptr);
    return once(*this, std::move(grads));
  }
  void release_variables() override { run = nullptr; }
  bool wants(size_t input) const { return task_should_compute_output(input); }
};

inline bool recorded(const variable_list& inputs) {
  if (!at::GradMode::is_enabled()) return false;
  return std::any_of(inputs.begin(), inputs.end(), [](const at::Tensor& t) { return t.defined() && t.requires_grad(); });
}

inline void record(const variable_list& inputs, const std::vector<at::Tensor*>& outputs,
            std::function<variable_list(const Step&, variable_list&&)> run) {
  auto step = std::shared_ptr<Step>(new Step(), torch::autograd::deleteNode);
  step->set_next_edges(torch::autograd::collect_next_edges(inputs));
  step->run = std::move(run);
  for (at::Tensor* output : outputs) torch::autograd::set_history(*output, step);
}
