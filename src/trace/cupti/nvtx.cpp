// NVTX: the functions that programs call for their ranges. A program hands out tables of pointers, which are set to these. NCCL tells the
// size of each collective in the payload of its range, by NVTX's extension for payloads.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <atomic>
#include <initializer_list>
#include <map>
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
  int32_t payload_type, payloads;
  uint64_t payload;
  int32_t message_type;
  const void *message;
};

constexpr int32_t TEXT = 1, REGISTERED = 3;
constexpr int32_t PAYLOADS = static_cast<int32_t>(0xDFBD0009);

// From nvtx3/nvToolsExtPayload.h: values that a program hands over with a range, and what it says of their places.
struct Payload {
  uint64_t schema;
  size_t size;
  const void *bytes;
};

struct SchemaEntry {
  uint64_t flags, type;
  const char *name, *description;
  uint64_t detail, offset;
  const void *semantics, *reserved;
};

struct Schema {
  uint64_t fields;
  const char *name;
  uint64_t type, flags;
  const SchemaEntry *entries;
  size_t count, size, align;
  uint64_t id;
  const void *extension;
};

constexpr uint64_t ENTRIES = 1 << 4, COUNT = 1 << 5, ID = 1 << 8;
constexpr uint64_t UINT64 = 18, SIZE = 22;

/// A size that is not known.
constexpr int64_t UNKNOWN = -1;

struct Open {
  uint32_t name;
  uint32_t domain;
  int64_t start;
  /// What a collective of NCCL says of its size.
  int64_t bytes = UNKNOWN;
};

thread_local std::vector<Open> pushed;

/// Where payloads hold the size of a collective's message, by domain and schema.
class Sizes {
public:
  uint64_t add(uint32_t domain, const Schema *schema) {
    std::lock_guard<std::mutex> lock(mutex_);
    const bool has_id = (schema->fields & ID) != 0 && schema->id != 0;
    const uint64_t id = has_id ? schema->id : next_++;
    if ((schema->fields & ENTRIES) == 0 || (schema->fields & COUNT) == 0 || schema->entries == nullptr) return id;
    for (size_t place = 0; place < schema->count; place++) {
      const SchemaEntry &entry = schema->entries[place];
      if (entry.name == nullptr || strcmp(entry.name, "Message size [bytes]") != 0) continue;
      // An offset of 0 means that the program leaves it to the tool, but for the first.
      const bool is_placed = place == 0 || entry.offset != 0;
      if (entry.flags == 0 && is_placed && (entry.type == UINT64 || entry.type == SIZE)) offsets_[key(domain, id)] = entry.offset;
    }
    return id;
  }

  int64_t of(uint32_t domain, const Payload *payloads, size_t count) {
    if (payloads == nullptr) return UNKNOWN;
    std::lock_guard<std::mutex> lock(mutex_);
    for (size_t place = 0; place < count; place++) {
      const Payload &payload = payloads[place];
      auto known = offsets_.find(key(domain, payload.schema));
      int64_t bytes = UNKNOWN;
      if (known == offsets_.end() || payload.bytes == nullptr) continue;
      if (payload.size < sizeof bytes || known->second > payload.size - sizeof bytes) continue;
      memcpy(&bytes, static_cast<const char *>(payload.bytes) + known->second, sizeof bytes);
      if (bytes >= 0) return bytes;
    }
    return UNKNOWN;
  }

private:
  static std::pair<uint32_t, uint64_t> key(uint32_t domain, uint64_t schema) { return {domain, schema}; }

  std::mutex mutex_;
  std::map<std::pair<uint32_t, uint64_t>, uint64_t> offsets_;
  /// Those that a program does not number.
  uint64_t next_ = uint64_t{1} << 32;
};

/// It is never destroyed: threads may call it until the process is gone.
Sizes &sizes() {
  static auto *all = new Sizes;
  return *all;
}

int64_t size_in(uint32_t domain, const Attributes *attributes) {
  if (attributes == nullptr || attributes->payload_type != PAYLOADS || attributes->payloads <= 0) return UNKNOWN;
  const auto *payloads = reinterpret_cast<const Payload *>(static_cast<uintptr_t>(attributes->payload));
  return sizes().of(domain, payloads, static_cast<size_t>(attributes->payloads));
}

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
  if (range.bytes == UNKNOWN) {
    record.bytes = range.domain;
  } else {
    record.kind = COLLECTIVE;
    record.bytes = static_cast<uint64_t>(range.bytes);
    record.more = range.domain;
  }
  queue(record);
}

int push(uint32_t domain, const char *text, const Attributes *attributes) {
  const bool on = records();
  // What began while nothing was recorded has no start.
  pushed.push_back({on ? name_of(text, attributes) : 0, domain, on ? now_ns() : 0, on ? size_in(domain, attributes) : UNKNOWN});
  return static_cast<int>(pushed.size()) - 1;
}

int pop(int64_t bytes = UNKNOWN) {
  if (pushed.empty()) return -1;
  Open range = pushed.back();
  pushed.pop_back();
  if (bytes != UNKNOWN) range.bytes = bytes;
  if (range.start != 0 && records()) end_range(range, this_thread());
  return static_cast<int>(pushed.size());
}

std::mutex started_mutex;
std::unordered_map<uint64_t, std::pair<Open, uint32_t>> started;

uint64_t start_range(uint32_t domain, const char *text, const Attributes *attributes) {
  static std::atomic<uint64_t> next{1};
  if (!records()) return 0;
  const Open range{name_of(text, attributes), domain, now_ns(), size_in(domain, attributes)};
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

// From nvtx3/nvtxDetail/nvtxExtTypes.h: an extension, and the places of its functions.
struct Segment {
  size_t id, count;
  void **slots;
};

struct Extension {
  uint16_t nvtx, size, module, compatible_with;
  size_t segments;
  const Segment *segment;
};

constexpr uint16_t MODULE_PAYLOAD = 2;
/// The version of the extension that the structures above are of.
constexpr uint16_t KNOWN_PAYLOADS = 0x0103;

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
       {{4, pointer(+[](const Attributes *attributes) { return start_range(0, nullptr, attributes); })},
        {5, pointer(+[](const char *text) { return start_range(0, text, nullptr); })},
        {7, pointer(+[](uint64_t id) { finish_range(id); })},
        {8, pointer(+[](const Attributes *attributes) { return push(0, nullptr, attributes); })},
        {9, pointer(+[](const char *text) { return push(0, text, nullptr); })},
        {11, pointer(+[] { return pop(); })}});
  fill(callbacks, MODULE_CORE2,
       {{2, pointer(+[](Domain domain, const Attributes *attributes) { return start_range(number(domain), nullptr, attributes); })},
        {3, pointer(+[](Domain, uint64_t id) { finish_range(id); })},
        {4, pointer(+[](Domain domain, const Attributes *attributes) { return push(number(domain), nullptr, attributes); })},
        {5, pointer(+[](Domain) { return pop(); })},
        {10, pointer(+[](Domain domain, const char *text) { return register_string(domain, text); })},
        {12, pointer(+[](const char *name) { return create_domain(name); })}});
  return 1;
}

/// NVTX calls this for each of its extensions that the program uses.
EXPORTED int InitializeInjectionNvtxExtension(const trace::Extension *extension) {
  using namespace trace;
  if (extension == nullptr || extension->module != MODULE_PAYLOAD || extension->segments == 0) return 0;
  // With another version ranges still end, but tell no sizes.
  if (extension->compatible_with == KNOWN_PAYLOADS && extension->segment->count > 0) {
    extension->segment->slots[0] =
        pointer(+[](Domain domain, const Schema *schema) { return schema == nullptr ? 0 : sizes().add(number(domain), schema); });
  }
  // NCCL begins its ranges by other functions than these, so their payloads are not read.
  const std::pair<size_t, void *> functions[] = {
      {3, pointer(+[](Domain domain, const Payload *, size_t) { return push(number(domain), nullptr, nullptr); })},
      {4, pointer(+[](Domain domain, const Payload *payloads, size_t count) {
         return pop(records() ? sizes().of(number(domain), payloads, count) : UNKNOWN);
       })},
      {5, pointer(+[](Domain domain, const Payload *, size_t) { return start_range(number(domain), nullptr, nullptr); })},
      {6, pointer(+[](Domain, uint64_t id, const Payload *, size_t) { finish_range(id); })},
  };
  for (const auto &[place, function] : functions) {
    if (place < extension->segment->count) extension->segment->slots[place] = function;
  }
  return 1;
}
