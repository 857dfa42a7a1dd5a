// Sharded parameters: each rank keeps its part of a unit's values, and has the whole tensors only while they are used.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "collectives.h"
#include "group.h"
#include "guard.h"

namespace {

// Parameters and parts begin at multiples of this, as separately allocated tensors do: some of cuBLASLt's kernels require it.
constexpr int64_t ALIGNED_BYTES = 256;

int64_t aligned(int64_t values, int64_t size) {
  int64_t step = std::max<int64_t>(1, ALIGNED_BYTES / size);
  return (values + step - 1) / step * step;
}

// The parameters of a unit that have the same type and are all trained or all frozen, one after the other.
struct Flat {
  bool trained;
  std::vector<at::Tensor> parameters;  // leaves of autograd, views of `whole`
  std::vector<int64_t> starts;         // the start of each parameter in `whole`
  at::Tensor whole;                    // [ranks * length of a part]: its storage is empty while it is not used
  at::Tensor part;                     // this rank's part, which the optimizer updates
  std::vector<at::Tensor> parts;       // the parts of all ranks, if copies gather them
  int64_t values = 0;                  // number of values without padding
  at::Tensor sent, received;           // gradients that are being reduced

  // The range of `flat` that holds parameter p, in the parameter's shape and strides.
  at::Tensor form(const at::Tensor& flat, size_t p) const {
    return flat.as_strided(parameters[p].sizes(), parameters[p].strides(), starts[p]);
  }

  c10::StorageImpl* storage() const { return whole.storage().unsafeGetStorageImpl(); }

  // Tensors that autograd stored share this storage, so they see what is gathered into it later.
  void allocate() {
    size_t bytes = whole.numel() * whole.element_size();
    storage()->set_data_ptr_noswap(storage()->allocator()->allocate(bytes));
    storage()->set_nbytes(bytes);
  }

  void release() {
    storage()->set_data_ptr_noswap(at::DataPtr(nullptr, whole.device()));
    storage()->set_nbytes(0);
  }

  // The gradients of the whole tensors, one after the other, with zeros as padding.
  at::Tensor gradients() {
    auto flat = at::empty_like(whole);
    std::vector<at::Tensor> to, from;
    for (size_t p = 0; p < parameters.size(); p++) {
      int64_t end = starts[p] + parameters[p].numel();
      int64_t next = p + 1 < starts.size() ? starts[p + 1] : flat.numel();
      if (next > end) flat.narrow(0, end, next - end).zero_();
      auto& gradient = parameters[p].mutable_grad();
      if (gradient.defined()) {
        to.push_back(form(flat, p));
        from.push_back(gradient);
      } else {
        form(flat, p).zero_();
      }
    }
    if (!to.empty()) at::_foreach_copy_(to, from);
    for (auto& parameter : parameters) parameter.mutable_grad().reset();
    return flat;
  }
};

struct ShardedUnit {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  std::shared_ptr<PeerCopies> copies;               // if present, copies gather parameters instead of collectives
  std::vector<Flat> flats;
  bool there = false;                               // whether whole tensors are allocated
  std::function<void()> gathering;                  // makes the current stream wait for the whole tensors
  c10::intrusive_ptr<c10d::Work> reducing;

  ShardedUnit(const c10::intrusive_ptr<c10d::ProcessGroup>& group, std::shared_ptr<PeerCopies> by, at::Tensor** tensors, size_t count)
      : group(group), copies(std::move(by)) {
    for (size_t i = 0; i < count; i++) {
      auto& tensor = *tensors[i];
      TORCH_CHECK(tensor.is_non_overlapping_and_dense(), "a parameter whose elements are not contiguous cannot be sharded");
      auto is_like = [&](const Flat& flat) {
        return flat.trained == tensor.requires_grad() && flat.parameters[0].scalar_type() == tensor.scalar_type();
      };
      auto flat = std::find_if(flats.begin(), flats.end(), is_like);
      if (flat == flats.end()) flat = flats.insert(flats.end(), Flat{tensor.requires_grad()});
      flat->parameters.push_back(tensor);
    }
    for (auto& flat : flats) cut(flat);
  }

  void cut(Flat& flat) {
    int64_t ranks = group->getSize(), size = flat.parameters[0].element_size(), end = 0;
    for (auto& parameter : flat.parameters) {
      flat.starts.push_back(end);
      flat.values += parameter.numel();
      end = aligned(end + parameter.numel(), size);
    }
    int64_t length = aligned((end + ranks - 1) / ranks, size);
    // `whole` is not a view, because its own storage is freed and allocated.
    flat.whole = at::zeros({ranks * length}, flat.parameters[0].options().requires_grad(false));
    for (size_t p = 0; p < flat.parameters.size(); p++) {
      auto place = flat.form(flat.whole, p);
      place.copy_(flat.parameters[p].detach());
      flat.parameters[p].set_data(place);
    }
    flat.part = flat.whole.narrow(0, group->getRank() * length, length).clone();
    if (flat.trained) flat.part.requires_grad_(true);
    flat.release();
    if (copies) reach(flat);
  }

  // Opens the parts of the other ranks for copies.
  void reach(Flat& flat) {
    auto shared = copies->share(flat.part);
    int64_t length = shared.size(), ranks = group->getSize(), rank = group->getRank();
    auto own = at::from_blob(shared.data(), {length}, at::kByte).to(flat.part.device());
    auto all = at::empty({ranks * length}, own.options());
    group->_allgather_base(all, own)->wait();
    all = all.cpu();
    for (int64_t r = 0; r < ranks; r++) {
      auto handle = std::string(static_cast<const char*>(all.data_ptr()) + r * length, length);
      flat.parts.push_back(r == rank ? flat.part.detach() : copies->open(handle, flat.part.detach()));
    }
  }

  // The copies that gather a tensor. They begin with the next rank, so that no two ranks read from the same rank at the same time.
  void add_copies(Flat& flat, std::vector<std::pair<at::Tensor, at::Tensor>>& each) const {
    int64_t ranks = group->getSize(), length = flat.part.numel();
    for (int64_t i = 1; i <= ranks; i++) {
      int64_t from = (group->getRank() + i) % ranks;
      each.emplace_back(flat.whole.narrow(0, from * length, length), flat.parts[from]);
    }
  }

  // Begins to gather the whole tensors, concurrently with the work that the device does from now on.
  bool gather() {
    if (there) return false;
    for (auto& flat : flats) flat.allocate();
    there = true;
    if (copies) {
      std::vector<std::pair<at::Tensor, at::Tensor>> each;
      for (auto& flat : flats) add_copies(flat, each);
      gathering = copies->copy(each);
      return true;
    }
    std::vector<at::Tensor> wholes, parts;
    for (auto& flat : flats) {
      wholes.push_back(flat.whole);
      parts.push_back(flat.part.detach());
    }
    gathering = [work = group->allgather_into_tensor_coalesced(wholes, parts)] { work->wait(); };
    return true;
  }

  // Makes work that is queued from now on wait for the whole tensors.
  void wait() {
    auto gathered = std::exchange(gathering, nullptr);
    if (!gathered) return;
    WaitForRanks waits;
    gathered();
  }

  void release() {
    if (!there) return;
    wait();
    for (auto& flat : flats) flat.release();
    there = false;
  }

  bool has_gradients() const {
    for (auto& flat : flats) {
      for (auto& parameter : flat.parameters) {
        if (flat.trained && parameter.grad().defined()) return true;
      }
    }
    return false;
  }

  // Begins to add gradients over ranks. Each rank receives the sums for the part that it updates.
  bool reduce() {
    settle();
    std::vector<at::Tensor> sums, gradients;
    for (auto& flat : flats) {
      if (!flat.trained) continue;
      flat.sent = flat.gradients();
      flat.received = at::empty_like(flat.part, at::TensorOptions().requires_grad(false));
      gradients.push_back(flat.sent);
      sums.push_back(flat.received);
    }
    if (sums.empty()) return false;
    c10d::ReduceScatterOptions options;
    options.reduceOp = c10d::ReduceOp::SUM;
    reducing = group->reduce_scatter_tensor_coalesced(sums, gradients, options);
    return true;
  }

  // Adds the mean gradients to the gradients of the parts.
  void settle() {
    auto work = std::exchange(reducing, nullptr);
    if (!work) return;
    {
      WaitForRanks waits;
      work->wait();
    }
    for (auto& flat : flats) {
      if (!flat.received.defined()) continue;
      flat.received.div_(group->getSize());
      auto& gradient = flat.part.mutable_grad();
      if (gradient.defined()) {
        gradient.add_(flat.received);
      } else {
        gradient = flat.received;
      }
      flat.received.reset();
      flat.sent.reset();
    }
  }
};

}  // namespace

// Keeps this rank's part of parameters that are the same on all ranks, and frees the whole tensors. With `by_copies`, copies between GPUs
// gather them; then no rank may update its part while others read it, or read another part before it is updated.
SHIM_API ShardedUnit* mc_unit_new(Group* group, at::Tensor** parameters, size_t count, int by_copies) {
  GUARD(nullptr, {
    at::NoGradGuard no_grad;
    TORCH_CHECK(!by_copies || group->copies, "copies between GPUs need ranks on GPUs");
    return new ShardedUnit(group->group, by_copies ? group->copies : nullptr, parameters, count);
  })
}

SHIM_API void mc_unit_free(ShardedUnit* unit) {
  GUARD(, { delete unit; })
}

// Returns 1 if this needed a collective; so do the functions below.
SHIM_API int mc_unit_gather(ShardedUnit* unit) {
  GUARD(-1, {
    at::NoGradGuard no_grad;
    return unit->gather() ? 1 : 0;
  })
}

SHIM_API int mc_unit_wait(ShardedUnit* unit) {
  GUARD(-1, {
    unit->wait();
    return 0;
  })
}

SHIM_API int mc_unit_release(ShardedUnit* unit) {
  GUARD(-1, {
    unit->release();
    return 0;
  })
}

SHIM_API int mc_unit_has_gradients(ShardedUnit* unit) {
  GUARD(-1, { return unit->has_gradients() ? 1 : 0; })
}

SHIM_API int mc_unit_reduce(ShardedUnit* unit) {
  GUARD(-1, {
    at::NoGradGuard no_grad;
    return unit->reduce() ? 1 : 0;
  })
}

SHIM_API int mc_unit_settle(ShardedUnit* unit) {
  GUARD(-1, {
    at::NoGradGuard no_grad;
    unit->settle();
    return 0;
  })
}

// Returns the number of trained parts, and writes the first `room` of them.
SHIM_API int mc_unit_parts(ShardedUnit* unit, at::Tensor** parts, size_t room) {
  GUARD(-1, {
    size_t count = 0;
    for (auto& flat : unit->flats) {
      if (!flat.trained) continue;
      if (count < room) parts[count] = new at::Tensor(flat.part);
      count++;
    }
    return static_cast<int>(count);
  })
}

// The bytes of this rank's parts, and of the whole parameters.
SHIM_API int mc_unit_bytes(ShardedUnit* unit, int64_t* held, int64_t* whole) {
  GUARD(-1, {
    *held = *whole = 0;
    for (auto& flat : unit->flats) {
      *held += flat.part.numel() * flat.part.element_size();
      *whole += flat.values * flat.part.element_size();
    }
    return 0;
  })
}

// Leaves the trained parameters whole, on the host of ranks with `keep`. They can then be read, but not trained. All ranks must call it.
SHIM_API int mc_unit_finish(ShardedUnit* unit, int keep) {
  GUARD(-1, {
    at::NoGradGuard no_grad;
    unit->gather();
    unit->wait();
    for (auto& flat : unit->flats) {
      for (auto& parameter : flat.parameters) {
        if (keep && flat.trained) parameter.set_data(parameter.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true));
      }
    }
    unit->release();
    return 0;
  })
}
