// Which calls of CUDA the tracer records, leaves out, and takes for waits.
#pragma once

#include <cupti.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace trace {

/// Calls that only ask or set a thread's state. PyTorch makes them by the thousand, and they say nothing of where time goes; nsys leaves
/// them out too.
const std::pair<CUpti_CallbackId, const char *> NOISE[] = {
#define NOISY(name, version) {CUPTI_RUNTIME_TRACE_CBID_##name##_##version, #name}
    NOISY(cudaGetDevice, v3020),
    NOISY(cudaSetDevice, v3020),
    NOISY(cudaGetLastError, v3020),
    NOISY(cudaPeekAtLastError, v3020),
    NOISY(cudaGetErrorString, v3020),
    NOISY(cudaGetErrorName, v6050),
    NOISY(cudaGetDeviceCount, v3020),
    NOISY(cudaGetDeviceProperties, v3020),
    NOISY(cudaGetDeviceProperties, v12000),
    NOISY(cudaDeviceGetAttribute, v5000),
    NOISY(cudaDriverGetVersion, v3020),
    NOISY(cudaRuntimeGetVersion, v3020),
    NOISY(cudaFuncGetAttributes, v3020),
    NOISY(cudaFuncSetAttribute, v9000),
    NOISY(cudaPointerGetAttributes, v4000),
    NOISY(cudaStreamGetPriority, v5050),
    NOISY(cudaDeviceGetStreamPriorityRange, v5050),
    NOISY(cudaOccupancyMaxActiveBlocksPerMultiprocessor, v6000),
    NOISY(cudaOccupancyMaxActiveBlocksPerMultiprocessor, v6050),
    NOISY(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, v7000),
    NOISY(cudaGetDriverEntryPoint, v11030),
    NOISY(cudaGetDriverEntryPointByVersion, v12050),
#undef NOISY
};

/// Calls in which the host waits, or a stream is made to: what they wait for, and whether their first argument is a stream. CUPTI has
/// records of synchronisation, but while it makes them each call of the runtime takes 0.4 µs more.
struct Wait {
  CUpti_CallbackId id;
  CUpti_ActivitySynchronizationType type;
  bool of_stream;
};
#define RUNTIME_WAIT(name, version, type, of_stream) \
  {CUPTI_RUNTIME_TRACE_CBID_##name##_##version, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_##type, of_stream}
const Wait RUNTIME_WAITS[] = {
    RUNTIME_WAIT(cudaDeviceSynchronize, v3020, CONTEXT_SYNCHRONIZE, false),
    RUNTIME_WAIT(cudaStreamSynchronize, v3020, STREAM_SYNCHRONIZE, true),
    RUNTIME_WAIT(cudaStreamSynchronize_ptsz, v7000, STREAM_SYNCHRONIZE, true),
    RUNTIME_WAIT(cudaStreamWaitEvent, v3020, STREAM_WAIT_EVENT, true),
    RUNTIME_WAIT(cudaStreamWaitEvent_ptsz, v7000, STREAM_WAIT_EVENT, true),
    RUNTIME_WAIT(cudaEventSynchronize, v3020, EVENT_SYNCHRONIZE, false),
    RUNTIME_WAIT(cudaEventQuery, v3020, EVENT_SYNCHRONIZE, false),
};
#undef RUNTIME_WAIT
const Wait DRIVER_WAITS[] = {
    {CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE, false},
    {CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE, true},
    {CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize_ptsz, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE, true},
    {CUPTI_DRIVER_TRACE_CBID_cuStreamWaitEvent, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT, true},
    {CUPTI_DRIVER_TRACE_CBID_cuStreamWaitEvent_ptsz, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT, true},
    {CUPTI_DRIVER_TRACE_CBID_cuEventSynchronize, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE, false},
    {CUPTI_DRIVER_TRACE_CBID_cuEventQuery, CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE, false},
};

/// Launches by the driver's own functions, as of kernels that were compiled at run time.
const CUpti_CallbackId DRIVER_LAUNCHES[] = {
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
};

template <size_t COUNT> const Wait *wait_of(const Wait (&waits)[COUNT], CUpti_CallbackId id) {
  const Wait *found = std::find_if(waits, waits + COUNT, [id](const Wait &wait) { return wait.id == id; });
  return found == waits + COUNT ? nullptr : found;
}

} // namespace trace
