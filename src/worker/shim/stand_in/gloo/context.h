// libtorch's wheel lacks gloo's headers. Only pointers to this type cross the shim; the real one is in libtorch_cpu.
#pragma once
#include <chrono>

namespace gloo {
class Context {
 public:
  void setTimeout(std::chrono::milliseconds);
};
}  // namespace gloo
