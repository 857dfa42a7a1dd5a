// For the built-in trace: records collectives over gloo, waits for them, and launches of collectives over NCCL. Without a trace, this
// costs one check of a pointer.
#pragma once
#include <cstdint>

// Returns the start of a record, in nanoseconds of the trace's clock; negative if nothing is recorded now.
using BeginRecord = int64_t (*)();
// Ends a record of the calling thread: a collective with its size in bytes, or a wait, whose size is negative.
using EndRecord = void (*)(const char* name, int64_t bytes, int64_t begun);

struct CollectiveTrace {
  BeginRecord begin = nullptr;
  EndRecord end = nullptr;
  // Whether collectives run over gloo, for which the host waits; streams wait for those over NCCL.
  bool on_host = false;
};

inline CollectiveTrace collective_trace;

// Records, for as long as the value lives, that the calling thread waits for other ranks.
class WaitForRanks {
 public:
  WaitForRanks() : begun_(collective_trace.on_host ? collective_trace.begin() : -1) {}
  explicit WaitForRanks(int64_t begun) : begun_(begun) {}
  ~WaitForRanks() {
    if (begun_ >= 0) collective_trace.end("wait for ranks", -1, begun_);
  }
  WaitForRanks(const WaitForRanks&) = delete;
  WaitForRanks& operator=(const WaitForRanks&) = delete;

 private:
  int64_t begun_;
};
