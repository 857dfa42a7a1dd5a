// Copies between the GPUs of one machine by their copy engines, so that they occupy no multiprocessors.
#pragma once
#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

struct PeerCopies {
  virtual ~PeerCopies() = default;
  // What another process needs to open a tensor's memory. It has the same number of bytes for each tensor.
  virtual std::string share(const at::Tensor& tensor) = 0;
  // Opens another process's tensor from what that process shared; `like` gives its shape and type. It must outlive all copies.
  virtual at::Tensor open(const std::string& shared, const at::Tensor& like) = 0;
  // Starts to copy the second tensor of each pair to the first, after all earlier work of the current stream. Calling the returned
  // function makes the current stream wait for the copies.
  virtual std::function<void()> copy(const std::vector<std::pair<at::Tensor, at::Tensor>>& each) = 0;
};
