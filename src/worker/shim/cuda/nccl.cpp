// The process group of ranks on GPUs.
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "group.h"
#include "guard.h"

std::unique_ptr<PeerCopies> cuda_copies();

// Errors of collectives are reported by `mc_group_error`: the rank's environment tells NCCL's watchdog to abort communicators that fail
// or time out, without ending the process.
SHIM_API Group* mcc_group_nccl(c10::intrusive_ptr<c10d::Store>* store, int rank, int world_size, int device,
                               int64_t timeout_ms) {
  GUARD(nullptr, {
    auto options = c10d::ProcessGroupNCCL::Options::create(/*is_high_priority_stream=*/false);
    options->timeout = std::chrono::milliseconds(timeout_ms);
    auto keys = keys_of(*store, "nccl/");
    auto backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(keys, rank, world_size, options);
    auto type = c10d::ProcessGroup::BackendType::NCCL;
    auto* group = group_of(*store, rank, world_size, backend, at::kCUDA, type);
    auto bound = at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(device));
    group->group->setBoundDeviceId(bound);
    backend->setBoundDeviceId(bound);
    group->copies = cuda_copies();
    return group;
  })
}
