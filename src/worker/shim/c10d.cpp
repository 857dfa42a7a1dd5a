// Communication among ranks: the store through which they find each other, groups over gloo, collectives, and c10d's Reducer.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "collectives.h"
#include "group.h"
#include "guard.h"

namespace {

struct Store {
  c10::intrusive_ptr<c10d::Store> store;
};

struct GradientReducer {
  std::unique_ptr<c10d::Reducer> reducer;
};

std::vector<at::Tensor> list(at::Tensor** tensors, size_t count) {
  std::vector<at::Tensor> all;
  all.reserve(count);
  for (size_t i = 0; i < count; i++) all.push_back(*tensors[i]);
  return all;
}

std::vector<at::Tensor> detached(at::Tensor** tensors, size_t count) {
  std::vector<at::Tensor> all;
  all.reserve(count);
  for (size_t i = 0; i < count; i++) all.push_back(tensors[i]->detach());
  return all;
}

// Records when a rank waits for the last buckets: from the end of the backward pass's arithmetic until the reducer is done. Functions
// that are queued during a backward pass are called after it, in order: first this one, then the reducer's, then the one that this one
// queues.
void record_waits(const at::Tensor& parameter) {
  parameter.register_hook([](const at::Tensor&) {
    torch::autograd::Engine::get_default_engine().queue_callback([] {
      int64_t begun = collective_trace.begin();
      torch::autograd::Engine::get_default_engine().queue_callback([begun] { WaitForRanks ends(begun); });
    });
  });
}

}  // namespace

// ---------- the store ----------

// The file is deleted with its folder, not by ranks. If a rank is stopped during the microseconds in which it holds the file's lock, the
// others wait for it; therefore ranks that have to report a lost rank do not use this store.
SHIM_API Store* mc_store_open(const char* path, int64_t timeout_ms) {
  GUARD(nullptr, {
    auto store = c10::make_intrusive<c10d::FileStore>(std::string(path), /*numWorkers=*/-1);
    store->setTimeout(std::chrono::milliseconds(timeout_ms));
    return new Store{store};
  })
}

SHIM_API void mc_store_free(Store* store) { delete store; }

// For the CUDA part, which creates its own groups.
SHIM_API c10::intrusive_ptr<c10d::Store>* mc_store_c10d(Store* store) { return &store->store; }

// ---------- the group ----------

// The address that gloo binds to. Ranks of one node use the loopback interface, which no other machine can reach. Ranks
// of several nodes use the interface that GLOO_SOCKET_IFNAME names, as in PyTorch; without it, the interface of the
// host's name.
std::shared_ptr<::gloo::transport::Device> gloo_device(bool over_nodes) {
  if (!over_nodes) return c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1");
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  if (interface != nullptr && *interface != 0) return c10d::ProcessGroupGloo::createDeviceForInterface(interface);
  return c10d::ProcessGroupGloo::createDefaultDevice();
}

SHIM_API Group* mc_group_gloo(Store* store, int rank, int world_size, int64_t timeout_ms, int over_nodes) {
  GUARD(nullptr, {
    auto options = c10d::ProcessGroupGloo::Options::create(std::chrono::milliseconds(timeout_ms));
    options->devices.push_back(gloo_device(over_nodes != 0));
    // With two threads, a group sometimes frees a string twice (AddressSanitizer: ProcessGroupGloo::runLoop of libtorch 2.11.0). The heap
    // was corrupted in about 1 of 1,000 groups; with one thread, in none of 7,000.
    options->threads = 1;
    auto keys = keys_of(store->store, "gloo/");
    auto backend = c10::make_intrusive<c10d::ProcessGroupGloo>(keys, rank, world_size, options);
    backend->setSequenceNumberForGroup();
    return group_of(store->store, rank, world_size, backend, at::kCPU, c10d::ProcessGroup::BackendType::GLOO);
  })
}

// Sets how long a collective may take from now on. Only for gloo.
SHIM_API int mc_group_set_timeout(Group* group, int64_t timeout_ms) {
  GUARD(-1, {
    group->backend->setTimeout(std::chrono::milliseconds(timeout_ms));
    return 0;
  })
}

// All ranks must call it. After it returns, nothing uses the group any more.
SHIM_API int mc_group_leave(Group* group) {
  std::unique_ptr<Group> owned(group);
  GUARD(-1, {
    if (owned->backend->getBackendName() == "nccl") owned->backend->shutdown();
    owned.reset();
    return 0;
  })
}

SHIM_API int mc_group_size(Group* group) {
  GUARD(-1, { return group->group->getSize(); })
}

// 0: no error; 1: a collective timed out; 2: a communicator failed; 3: another rank's communicator failed. Only NCCL stores errors.
SHIM_API int mc_group_error(Group* group) {
  GUARD(-1, {
    if (group->backend->getBackendName() != "nccl") return 0;
    return static_cast<int>(group->backend->getError());
  })
}

enum Operation { SUM = 0, MIN = 1, MAX = 2 };

SHIM_API int mc_group_reduce(Group* group, at::Tensor* tensor, int operation) {
  GUARD(-1, {
    at::NoGradGuard no_grad;
    c10d::AllreduceOptions options;
    options.reduceOp = operation == SUM   ? c10d::ReduceOp::SUM
                       : operation == MIN ? c10d::ReduceOp::MIN
                                          : c10d::ReduceOp::MAX;
    std::vector<at::Tensor> tensors{tensor->detach()};
    WaitForRanks waits;
    group->group->allreduce(tensors, options)->wait();
    return 0;
  })
}

// Sends one number to each rank and receives one from each, directly between the two ranks.
SHIM_API int mc_group_swap(Group* group, at::Tensor* said, at::Tensor* heard) {
  GUARD(-1, {
    at::NoGradGuard no_grad;
    at::Tensor to = heard->detach(), from = said->detach();
    std::vector<int64_t> one_each;
    group->group->alltoall_base(to, from, one_each, one_each)->wait();
    return 0;
  })
}

// Replaces the values on all ranks with those of rank 0.
SHIM_API int mc_group_broadcast(Group* group, at::Tensor** tensors, size_t count) {
  GUARD(-1, {
    at::NoGradGuard no_grad;
    WaitForRanks waits;
    // DistributedDataParallel broadcasts in buckets of this size.
    c10d::broadcast_coalesced(group->group, detached(tensors, count), 250 * 1024 * 1024, 0);
    return 0;
  })
}

// ---------- the reducer ----------

// As DistributedDataParallel creates it: the parameters are the same on all ranks, and there is one bucket until the order of gradients
// is known.
SHIM_API GradientReducer* mc_reducer_new(Group* group, at::Tensor** tensors, size_t count, int64_t bucket_bytes,
                                         int64_t first_bucket_bytes) {
  GUARD(nullptr, {
    auto parameters = list(tensors, count);
    c10d::verify_params_across_processes(group->group, parameters, {});
    std::vector<bool> sparse(count, false);
    std::vector<size_t> limits{std::numeric_limits<size_t>::max() / 2};
    auto assignment = c10d::compute_bucket_assignment_by_size(parameters, limits, sparse, {}, {});
    auto buckets = std::get<0>(assignment);
    std::reverse(buckets.begin(), buckets.end());
    std::unordered_map<size_t, std::string> names;
    for (size_t i = 0; i < count; i++) names[i] = "parameter " + std::to_string(i);
    auto reducer = std::make_unique<c10d::Reducer>(
        parameters, buckets, group->group, sparse, bucket_bytes, /*find_unused_parameters=*/false,
        /*gradient_as_bucket_view=*/true, names, first_bucket_bytes, /*skip_all_reduce_unused_params=*/false,
        /*use_python_reducer=*/false, std::vector<int64_t>{});
    if (collective_trace.on_host) record_waits(parameters.back());
    return new GradientReducer{std::move(reducer)};
  })
}

SHIM_API void mc_reducer_free(GradientReducer* reducer) {
  GUARD(, { delete reducer; })
}

SHIM_API int mc_reducer_before_forward(GradientReducer* reducer) {
  GUARD(-1, {
    reducer->reducer->prepare_for_forward();
    return reducer->reducer->rebuild_buckets() ? 1 : 0;
  })
}

SHIM_API int mc_reducer_before_backward(GradientReducer* reducer) {
  GUARD(-1, {
    reducer->reducer->prepare_for_backward({});
    return 0;
  })
}

SHIM_API int mc_reducer_buckets(GradientReducer* reducer) {
  GUARD(-1, { return static_cast<int>(reducer->reducer->get_grad_buckets(true).size()); })
}

// ---------- replicas within one process ----------

// Copies the values of one model to another, on any device.
SHIM_API int mc_copy_all(at::Tensor** to, at::Tensor** from, size_t count) {
  GUARD(-1, {
    at::NoGradGuard no_grad;
    for (size_t i = 0; i < count; i++) to[i]->detach().copy_(*from[i], /*non_blocking=*/true);
    return 0;
  })
}

// Adds the gradients of `from` to those of `to` and drops them. A replica that processed no images has no gradients.
SHIM_API int mc_add_gradients(at::Tensor** to, at::Tensor** from, size_t count) {
  GUARD(-1, {
    at::NoGradGuard no_grad;
    std::vector<at::Tensor> sums, parts;
    for (size_t i = 0; i < count; i++) {
      const at::Tensor part = from[i]->grad();
      from[i]->mutable_grad().reset();
      if (!part.defined()) continue;
      TORCH_CHECK(to[i]->grad().defined(), "parameter ", i, " has no gradient on the first replica");
      sums.push_back(to[i]->grad());
      parts.push_back(part.to(to[i]->device(), /*non_blocking=*/true));
    }
    if (!sums.empty()) at::_foreach_add_(sums, parts, 1);
    return 0;
  })
}

// ---------- ending ----------

// Runs no destructors, because the destructor of a group may wait for ever for peers that are gone.
SHIM_API void mc_exit(int code) { _exit(code); }
