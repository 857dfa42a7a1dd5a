// Functions that need libtorch_cuda: devices, events, the caching allocator.
#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <cstdio>

#include "guard.h"

namespace allocator = c10::cuda::CUDACachingAllocator;

SHIM_API const char* mcc_last_error() { return shim_error.c_str(); }

SHIM_API const char* mcc_stamp() { return SHIM_STAMP; }

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

// `uuid` receives 41 bytes: the text that NVML prints, and a terminating zero.
SHIM_API int mcc_device_info(int device, char* name, size_t name_length, char* uuid, int64_t* memory_bytes) {
  GUARD(-1, {
    cudaDeviceProp properties;
    C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
    std::snprintf(name, name_length, "%s", properties.name);
    const auto* b = reinterpret_cast<const unsigned char*>(properties.uuid.bytes);
    std::snprintf(uuid, 41, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
                  b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
    *memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
    return 0;
  })
}

// The default stream is a null pointer, which is not an error.
SHIM_API cudaStream_t mcc_current_stream() {
  GUARD(nullptr, { return c10::cuda::getCurrentCUDAStream().stream(); })
}

// ---------- events, on the current stream ----------

SHIM_API cudaEvent_t mcc_event_new(int timing) {
  GUARD(nullptr, {
    cudaEvent_t event = nullptr;
    C10_CUDA_CHECK(cudaEventCreateWithFlags(&event, timing ? cudaEventDefault : cudaEventDisableTiming));
    return event;
  })
}

SHIM_API void mcc_event_free(cudaEvent_t event) { (void)cudaEventDestroy(event); }

SHIM_API int mcc_event_record(cudaEvent_t event) {
  GUARD(-1, {
    C10_CUDA_CHECK(cudaEventRecord(event, c10::cuda::getCurrentCUDAStream()));
    return 0;
  })
}

// 1 if everything before the event has finished, otherwise 0.
SHIM_API int mcc_event_query(cudaEvent_t event) {
  GUARD(-1, {
    cudaError_t state = cudaEventQuery(event);
    if (state == cudaErrorNotReady) {
      (void)cudaGetLastError();  // clears the status, which is not an error
      return 0;
    }
    C10_CUDA_CHECK(state);
    return 1;
  })
}

// The host waits for the event.
SHIM_API int mcc_event_synchronize(cudaEvent_t event) {
  GUARD(-1, {
    C10_CUDA_CHECK(cudaEventSynchronize(event));
    return 0;
  })
}

SHIM_API int mcc_event_elapsed_ms(cudaEvent_t from, cudaEvent_t to, double* milliseconds) {
  GUARD(-1, {
    float elapsed = 0;
    C10_CUDA_CHECK(cudaEventElapsedTime(&elapsed, from, to));
    *milliseconds = elapsed;
    return 0;
  })
}

// ---------- the caching allocator ----------

// Peaks since the last reset: bytes in tensors, bytes reserved from the device, and bytes in blocks that are in use or wait for a stream.
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
    // Before the first tensor there is no allocator, and its share cannot be set.
    at::globalContext().lazyInitDevice(at::kCUDA);
    allocator::setMemoryFraction(fraction, static_cast<c10::DeviceIndex>(device));
    return 0;
  })
}
