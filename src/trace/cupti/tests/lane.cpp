// A test of lanes, which `tests.rs` compiles and runs: it ends with 0 if every record came out once and in order.
#include "lane.h"

#include <cstdio>
#include <memory>
#include <thread>

using trace::Lane;
using trace::Record;

Record numbered(int64_t number) {
  Record record;
  record.start = number;
  return record;
}

/// A full lane takes nothing more until its records were taken.
bool is_refused_while_full() {
  auto lane = std::make_unique<Lane>();
  for (uint64_t number = 1; number <= Lane::ROOM; number++) {
    if (lane->put(numbered(number)) != number) return false;
  }
  if (lane->put(numbered(0)) != 0) return false;
  int64_t taken = 0;
  bool in_order = true;
  lane->take([&](const Record &record) { in_order &= record.start == ++taken; });
  return in_order && taken == static_cast<int64_t>(Lane::ROOM) && lane->put(numbered(1)) == 1;
}

/// One thread puts records while another takes them.
bool come_out_in_order() {
  constexpr int64_t ALL = 1 << 20;
  auto lane = std::make_unique<Lane>();
  std::thread puts([&] {
    for (int64_t number = 1; number <= ALL; number++) {
      while (lane->put(numbered(number)) == 0) std::this_thread::yield();
    }
  });
  int64_t taken = 0;
  bool in_order = true;
  while (taken < ALL && in_order) lane->take([&](const Record &record) { in_order &= record.start == ++taken; });
  // The other thread may wait for room.
  while (taken < ALL) lane->take([&](const Record &) { taken++; });
  puts.join();
  return in_order;
}

int main() {
  if (!is_refused_while_full()) return puts("a full lane took a record, or lost one"), 1;
  if (!come_out_in_order()) return puts("records came out in another order than they went in"), 1;
  return 0;
}
