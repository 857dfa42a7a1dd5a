// A test of the clock of calls, which `tests.rs` compiles and runs: it ends with 0 if ticks become the times at which they were read.
#include "ticks.h"

#include <cstdlib>
#include <ctime>
#include <initializer_list>

namespace trace {
int64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}
} // namespace trace

using trace::now_ns;
using trace::ticks;
using trace::TickClock;

/// By how many nanoseconds a moment between two looks is off at best. A try is off by more if the thread loses its CPU within it.
int64_t least_error(TickClock &clock) {
  int64_t least = INT64_MAX;
  for (int tried = 0; tried < 200 && least > 1000; tried++) {
    const int64_t at = ticks(), ns = now_ns();
    for (const int64_t until = ns + 1'000'000; now_ns() < until;) {
    }
    clock.look();
    const int64_t error = llabs(clock.ns(at) - ns);
    if (error < least) least = error;
  }
  return least;
}

int main() {
  TickClock clock;
  clock.look();
  // The looks are at first too close together, and later one takes the place of the one before.
  for (const int64_t wait_ns : {0, 30'000'000, 30'000'000}) {
    for (const int64_t until = now_ns() + wait_ns; now_ns() < until;) {
    }
    const int64_t error = least_error(clock);
    if (error > 1000) return printf("times are off by %lld ns\n", static_cast<long long>(error)), 1;
    if (clock.ns(ticks()) > clock.ns(ticks())) return puts("a later tick became an earlier time"), 1;
  }
  return 0;
}
