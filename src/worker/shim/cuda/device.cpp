// What needs libtorch_cuda: the device, events, the caching allocator.
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdio>

#include "guard.h"

namespace allocator = c10::cuda::CUDACachingAllocator;

SHIM_API const char* mcc_last_error() { return shim_error.c_str(); }

// ---------- devices ----------

SHIM_API int mcc_device_count() {
  GUARD(-1, { return static_cast<int>(c10::cuda::device_count_ensure_non_zero()); })
}

SHIM_API int mcc_set_device(int device) {
  GUARD(-1, {
    c10::cuda::set_device(static_cast<c10::DeviceIndex>(device));
    return 0;
  })
}

SHIM_API int mcc_synchronize() {
  GUARD(-1, {
    c10::cuda::device_synchronize();
    return 0;
  })
}

// `uuid` gets 41 bytes: the form NVML prints, and its end.
SHIM_API int mcc_device_info(int device, char* name, size_t name_length, char* uuid, int64_t* memory_bytes) {
  GUARD(-1, {
    auto* properties = at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(device));
    std::snprintf(name, name_length, "%s", properties->name);
    const auto* b = reinterpret_cast<const unsigned char*>(properties->uuid.bytes);
    std::snprintf(uuid, 41, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
                  b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
    *memory_bytes = static_cast<int64_t>(properties->totalGlobalMem);
    return 0;
  })
}

// ---------- events, on the current stream ----------

SHIM_API at::cuda::CUDAEvent* mcc_event_new(int timing) {
  GUARD(nullptr, { return new at::cuda::CUDAEvent(timing ? cudaEventDefault : cudaEventDisableTiming); })
}

SHIM_API void mcc_event_free(at::cuda::CUDAEvent* event) { delete event; }

SHIM_API int mcc_event_record(at::cuda::CUDAEvent* event) {
  GUARD(-1, {
    event->record();
    return 0;
  })
}

// 1: everything before it is done; 0: not yet.
SHIM_API int mcc_event_query(at::cuda::CUDAEvent* event) {
  GUARD(-1, { return event->query() ? 1 : 0; })
}

// The host waits.
SHIM_API int mcc_event_synchronize(at::cuda::CUDAEvent* event) {
  GUARD(-1, {
    event->synchronize();
    return 0;
  })
}

// The current stream waits.
SHIM_API int mcc_event_block(at::cuda::CUDAEvent* event) {
  GUARD(-1, {
    event->block(c10::cuda::getCurrentCUDAStream());
    return 0;
  })
}

SHIM_API int mcc_event_elapsed_ms(at::cuda::CUDAEvent* from, at::cuda::CUDAEvent* to, double* milliseconds) {
  GUARD(-1, {
    *milliseconds = from->elapsed_time(*to);
    return 0;
  })
}

// ---------- the caching allocator ----------

// Peaks since the last reset: in tensors, taken from the device, in blocks in use or waiting for a stream.
SHIM_API int mcc_memory_peaks(int device, int64_t* allocated, int64_t* reserved, int64_t* active) {
  GUARD(-1, {
    auto statistics = allocator::getDeviceStats(static_cast<c10::DeviceIndex>(device));
    const size_t all = 0;  // StatType::AGGREGATE
    *allocated = statistics.allocated_bytes[all].peak;
    *reserved = statistics.reserved_bytes[all].peak;
    *active = statistics.active_bytes[all].peak;
    return 0;
  })
}

SHIM_API int mcc_reset_memory_peaks(int device) {
  GUARD(-1, {
    allocator::resetPeakStats(static_cast<c10::DeviceIndex>(device));
    return 0;
  })
}

SHIM_API int mcc_set_memory_fraction(int device, double fraction) {
  GUARD(-1, {
    allocator::setMemoryFraction(fraction, static_cast<c10::DeviceIndex>(device));
    return 0;
  })
}
