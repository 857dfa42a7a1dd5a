// Copies between the GPUs of one machine, which take no multiprocessor from the kernels that run meanwhile.
#pragma once
#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

struct PeerCopies {
  virtual ~PeerCopies() = default;
  // What another process needs to reach a tensor's memory: as many bytes for each.
  virtual std::string share(const at::Tensor& tensor) = 0;
  // Another process's tensor, which is like `like`, from what it shares. It must outlive all copies.
  virtual at::Tensor open(const std::string& shared, const at::Tensor& like) = 0;
  // Begins to copy second tensors to first ones, after what the current stream was told before, and beside what it is told from here
  // on. Calling the result lets the current stream wait for the copies.
  virtual std::function<void()> copy(const std::vector<std::pair<at::Tensor, at::Tensor>>& each) = 0;
};
