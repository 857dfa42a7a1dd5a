// Records of a raw file, whose format `raw.rs` documents and reads, and what threads of the program hand to the tracer.
#pragma once

#include <cstdint>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace trace {

enum Kind : uint8_t {
  STRING = 1, KERNEL, COPY, MEMSET, CALL, SYNCHRONISATION, RANGE, DOMAIN_NAME, GPU, WINDOW, PROBLEM, LEFT_OUT, END, ALLOCATION, NOTE,
  COLLECTIVE
};

struct Record {
  uint8_t kind = 0, a = 0, b = 0, c = 0;
  uint32_t name = 0;
  int64_t start = 0, end = 0;
  uint32_t device = 0, track = 0, correlation = 0, more = 0;
  uint64_t bytes = 0;
};
static_assert(sizeof(Record) == 48, "the reader's size");

struct Header {
  uint8_t mark[4] = {0x93, 'M', 'C', 'T'};
  uint8_t version = 2, zeros[3] = {};
  int64_t process = 0;
  int32_t rank = -1;
  uint32_t cupti = 0;
  int64_t realtime_offset = 0;
  uint8_t more[16] = {};
};
static_assert(sizeof(Header) == 48, "the reader's size");

/// Time in nanoseconds of the clock that all processes of a machine share, which is also that of the ranks' own ranges.
int64_t now_ns();

uint32_t this_thread();

/// Opens the tracer of a program that was started with this library in its environment, and begins to record. Whether it records.
bool inject();

/// Whether a tracer records now.
bool records();

/// The id of a name that NVTX gave; 0 without a tracer.
uint32_t name_id(const char *text);

/// Hands a record to the tracer, if there is one.
void queue(const Record &record);

} // namespace trace
