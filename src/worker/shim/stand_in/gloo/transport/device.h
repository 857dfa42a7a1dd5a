// libtorch's wheel lacks gloo's headers. Only pointers to these types cross the shim; the real ones are in libtorch_cpu.
#pragma once

namespace gloo::transport {
class Device;
class UnboundBuffer {
 public:
  virtual ~UnboundBuffer();
};
}  // namespace gloo::transport
