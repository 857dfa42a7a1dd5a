// The clock of calls: the counter of the CPU, which is read in a quarter of the time that the system's clock takes. Calls are noted in its
// ticks, and the writing thread makes nanoseconds of them.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "record.h"

namespace trace {

/// Whether Linux takes the time from this counter itself: then it is the same on all CPUs, and runs evenly.
inline bool has_counter() {
#if defined(__x86_64__)
  char name[16] = "";
  if (FILE *file = fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "r")) {
    if (fgets(name, sizeof name, file) == nullptr) name[0] = 0;
    fclose(file);
  }
  return strcmp(name, "tsc\n") == 0;
#else
  return false;
#endif
}

/// Ticks of the counter; nanoseconds of the system's clock if there is no such counter.
inline int64_t ticks() {
#if defined(__x86_64__)
  static const bool has = has_counter();
  if (has) return static_cast<int64_t>(__rdtsc());
#endif
  return now_ns();
}

/// Makes nanoseconds of ticks, by looking at both clocks now and then.
class TickClock {
public:
  /// Looks at both clocks. Ticks since the look before are then converted between two looks.
  void look() {
    const Look now = closest();
    if (before_.ns == 0) before_ = last_ = now;
    if (now.ns - last_.ns >= LEAST_NS) before_ = last_;
    last_ = now;
  }

  int64_t ns(int64_t at) const {
    const int64_t passed = last_.ticks - before_.ticks;
    if (passed == 0) return last_.ns;
    const double rate = static_cast<double>(last_.ns - before_.ns) / static_cast<double>(passed);
    return last_.ns + static_cast<int64_t>(static_cast<double>(at - last_.ticks) * rate);
  }

private:
  struct Look {
    int64_t ticks = 0, ns = 0;
  };
  /// Looks that are closer together than this tell the rate too roughly.
  static constexpr int64_t LEAST_NS = 20'000'000;
  static constexpr int TRIES = 16;

  /// Both clocks at the same time: of several tries the shortest, since a thread may lose its CPU between two clocks.
  static Look closest() {
    Look found;
    int64_t shortest = INT64_MAX;
    for (int tried = 0; tried < TRIES; tried++) {
      const int64_t from = ticks(), ns = now_ns(), to = ticks();
      if (to - from >= shortest) continue;
      shortest = to - from;
      found = {from + shortest / 2, ns};
    }
    return found;
  }

  Look before_, last_;
};

} // namespace trace
