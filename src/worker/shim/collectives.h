// What collectives over gloo do, and when a rank waits for them, and the launches of those over NCCL, for the built-in trace. Without one it
// costs a look at a pointer.
#pragma once
#include <cstdint>

// When something begins, in nanoseconds of the trace's clock; negative where nothing is recorded now.
using BeginRecord = int64_t (*)();
// Something of the calling thread ends now: a collective with its size in bytes, or a wait, whose size is negative.
using EndRecord = void (*)(const char* name, int64_t bytes, int64_t begun);

struct CollectiveTrace {
  BeginRecord begin = nullptr;
  EndRecord end = nullptr;
  // Whether collectives are over gloo, for which the host waits; for those over NCCL streams do.
  bool on_host = false;
};

inline CollectiveTrace collective_trace;

// The calling thread waits for other ranks while the value lives.
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
