// Records collectives through the callbacks of PyTorch's profiler. Over gloo, the thread that carries out a collective records how long
// it took; over NCCL, the thread that launches it records the time of the launch, during which it calls CUDA.
#include "collectives.h"

#include <ATen/ATen.h>
#include <ATen/record_function.h>

#include <memory>
#include <string_view>

#include "guard.h"

namespace {

struct Begun : at::ObserverContext {
  int64_t at;
  int64_t bytes;
  Begun(int64_t at, int64_t bytes) : at(at), bytes(bytes) {}
};

int64_t size_of(const at::RecordFunction& function) {
  int64_t bytes = 0;
  for (const auto& input : function.inputs()) {
    if (input.isTensor() && input.toTensor().defined()) bytes += static_cast<int64_t>(input.toTensor().nbytes());
  }
  return bytes;
}

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
  if (std::string_view(function.name()).substr(0, 5) != (collective_trace.on_host ? "gloo:" : "nccl:")) return nullptr;
  int64_t at = collective_trace.begin();
  if (at < 0) return nullptr;
  return std::make_unique<Begun>(at, size_of(function));
}

void end(const at::RecordFunction& function, at::ObserverContext* context) {
  if (!context) return;
  auto begun = static_cast<Begun*>(context);
  collective_trace.end(function.name(), begun->bytes, begun->at);
}

}  // namespace

// Call it once in a process, before the first collective.
SHIM_API int mc_record_collectives(BeginRecord begin_record, EndRecord end_record, int on_host) {
  GUARD(-1, {
    collective_trace = {begin_record, end_record, on_host != 0};
    at::addGlobalCallback(
        at::RecordFunctionCallback(begin, end).needsInputs(true).scopes({at::RecordScope::USER_SCOPE}));
    return 0;
  })
}
