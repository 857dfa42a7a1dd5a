// A process group, as both parts of the shim store it.
#pragma once
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <memory>
#include <string>

#include "peer_copies.h"

struct Group {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  c10::intrusive_ptr<c10d::Backend> backend;
  std::shared_ptr<PeerCopies> copies;  // if ranks are on GPUs
};

// Prefixes the keys of one group, because several groups use the same store.
inline c10::intrusive_ptr<c10d::Store> keys_of(const c10::intrusive_ptr<c10d::Store>& store, const char* prefix) {
  return c10::make_intrusive<c10d::PrefixStore>(prefix, store);
}

inline Group* group_of(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
                       const c10::intrusive_ptr<c10d::Backend>& backend, c10::DeviceType device,
                       c10d::ProcessGroup::BackendType type) {
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, world_size);
  group->setDefaultBackend(type);
  group->setBackend(device, type, backend);
  group->setGroupName("ranks");
  return new Group{group, backend};
}
