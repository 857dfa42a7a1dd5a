// The records of one thread of the program, on their way to the thread that writes them.
#pragma once

#include <atomic>
#include <cstdint>

#include "record.h"

namespace trace {

/// A ring of records. One thread puts records, another takes them, and neither waits for the other.
class Lane {
public:
  static constexpr uint64_t ROOM = 1 << 13;

  /// Puts a record. How many records are in the ring then; 0 if it had no room.
  uint64_t put(const Record &record) {
    const uint64_t end = end_.load(std::memory_order_relaxed);
    const uint64_t held = end - begin_.load(std::memory_order_acquire);
    if (held == ROOM) return 0;
    records_[end % ROOM] = record;
    end_.store(end + 1, std::memory_order_release);
    return held + 1;
  }

  /// Passes on all records, and makes room for new ones.
  template <class Each> void take(Each each) {
    const uint64_t end = end_.load(std::memory_order_acquire);
    for (uint64_t at = begin_.load(std::memory_order_relaxed); at != end; at++) each(records_[at % ROOM]);
    begin_.store(end, std::memory_order_release);
  }

private:
  // Two lines of the cache, as two threads write them.
  alignas(64) std::atomic<uint64_t> end_{0};
  alignas(64) std::atomic<uint64_t> begin_{0};
  alignas(64) Record records_[ROOM];
};

} // namespace trace
