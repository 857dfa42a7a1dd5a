// NVTX: the functions that programs call for their ranges. A program hands out tables of pointers, which are set to these.
#include <cstddef>
#include <cstdint>

#include <atomic>
#include <initializer_list>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "record.h"

namespace trace {
namespace {

struct Attributes {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  uint64_t payload;
  int32_t message_type;
  const void *message;
};

struct Open {
  uint32_t name;
  uint32_t domain;
  int64_t start;
};

constexpr int32_t TEXT = 1, REGISTERED = 3;

thread_local std::vector<Open> pushed;

uint32_t name_of(const char *text, const Attributes *attributes) {
  if (text != nullptr) return name_id(text);
  if (attributes == nullptr || attributes->message == nullptr) return 0;
  if (attributes->message_type == TEXT) return name_id(static_cast<const char *>(attributes->message));
  // Strings that were registered here are their ids.
  if (attributes->message_type == REGISTERED) return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(attributes->message));
  return 0;
}

void end_range(const Open &range, uint32_t thread) {
  Record record;
  record.kind = RANGE;
  record.name = range.name;
  record.start = range.start;
  record.end = now_ns();
  record.track = thread;
  record.bytes = range.domain;
  queue(record);
}

int push(uint32_t domain, const char *text, const Attributes *attributes) {
  const bool on = records();
  // What began while nothing was recorded has no start.
  pushed.push_back({on ? name_of(text, attributes) : 0, domain, on ? now_ns() : 0});
  return static_cast<int>(pushed.size()) - 1;
}

int pop() {
  if (pushed.empty()) return -1;
  const Open range = pushed.back();
  pushed.pop_back();
  if (range.start != 0 && records()) end_range(range, this_thread());
  return static_cast<int>(pushed.size());
}

std::mutex started_mutex;
std::unordered_map<uint64_t, std::pair<Open, uint32_t>> started;

uint64_t start_range(uint32_t domain, const char *text, const Attributes *attributes) {
  static std::atomic<uint64_t> next{1};
  if (!records()) return 0;
  const Open range{name_of(text, attributes), domain, now_ns()};
  const uint64_t id = next.fetch_add(1);
  std::lock_guard<std::mutex> lock(started_mutex);
  started.emplace(id, std::make_pair(range, this_thread()));
  return id;
}

void finish_range(uint64_t id) {
  std::pair<Open, uint32_t> range;
  {
    std::lock_guard<std::mutex> lock(started_mutex);
    auto found = started.find(id);
    if (found == started.end()) return;
    range = found->second;
    started.erase(found);
  }
  end_range(range.first, range.second);
}

using Domain = void *;

uint32_t number(Domain domain) { return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(domain)); }

Domain create_domain(const char *name) {
  static std::atomic<uint32_t> next{1};
  const uint32_t id = next.fetch_add(1);
  if (name != nullptr) {
    Record record;
    record.kind = DOMAIN_NAME;
    record.name = name_id(name);
    record.bytes = id;
    queue(record);
  }
  return reinterpret_cast<Domain>(static_cast<uintptr_t>(id));
}

void *register_string(Domain, const char *text) {
  return reinterpret_cast<void *>(static_cast<uintptr_t>(text == nullptr ? 0 : name_id(text)));
}

// From nvtx3/nvtxDetail/nvtxTypes.h: modules and the places of their functions.
constexpr int MODULE_CORE = 1, MODULE_CORE2 = 5;
constexpr uint32_t TABLE_CALLBACKS = 1;

struct Callbacks {
  size_t size;
  int (*module)(int module, void ****slots, unsigned *count);
};

void fill(const Callbacks *callbacks, int module, std::initializer_list<std::pair<unsigned, void *>> functions) {
  void ***slots = nullptr;
  unsigned count = 0;
  if (callbacks->module(module, &slots, &count) == 0 || slots == nullptr) return;
  for (const auto &[place, function] : functions) {
    if (place < count && slots[place] != nullptr) *slots[place] = function;
  }
}

template <class Function> void *pointer(Function *function) { return reinterpret_cast<void *>(function); }

} // namespace
} // namespace trace

/// NVTX calls this in a program whose NVTX_INJECTION64_PATH names this library.
EXPORTED int InitializeInjectionNvtx2(const void *(*table)(uint32_t)) {
  using namespace trace;
  if (table == nullptr || !inject()) return 0;
  const auto *callbacks = static_cast<const Callbacks *>(table(TABLE_CALLBACKS));
  if (callbacks == nullptr || callbacks->size < sizeof(Callbacks)) return 0;
  fill(callbacks, MODULE_CORE,
       {{4, pointer(+[](const Attributes *of) { return start_range(0, nullptr, of); })},
        {5, pointer(+[](const char *text) { return start_range(0, text, nullptr); })},
        {7, pointer(+[](uint64_t id) { finish_range(id); })},
        {8, pointer(+[](const Attributes *of) { return push(0, nullptr, of); })},
        {9, pointer(+[](const char *text) { return push(0, text, nullptr); })},
        {11, pointer(+[] { return pop(); })}});
  fill(callbacks, MODULE_CORE2,
       {{2, pointer(+[](Domain domain, const Attributes *of) { return start_range(number(domain), nullptr, of); })},
        {3, pointer(+[](Domain, uint64_t id) { finish_range(id); })},
        {4, pointer(+[](Domain domain, const Attributes *of) { return push(number(domain), nullptr, of); })},
        {5, pointer(+[](Domain) { return pop(); })},
        {10, pointer(+[](Domain domain, const char *text) { return register_string(domain, text); })},
        {12, pointer(+[](const char *name) { return create_domain(name); })}});
  return 1;
}
