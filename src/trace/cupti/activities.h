// What CUPTI's buffers hold, as records of a raw file: work on GPUs and allocations, with their names and devices.
#pragma once

#include <cupti.h>
#include <cxxabi.h>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "library.h"
#include "raw_file.h"

namespace trace {

/// It belongs to the thread that writes the file.
class Activities {
public:
  Activities(const Cupti &cupti, RawFile &file) : cupti_(cupti), file_(file) {}

  /// Writes the records of a buffer.
  void take(uint8_t *bytes, size_t valid) {
    CUpti_Activity *activity = nullptr;
    while (cupti_.cuptiActivityGetNextRecord(bytes, valid, &activity) == CUPTI_SUCCESS) take(activity);
    size_t lost = 0;
    if (cupti_.cuptiActivityGetNumDroppedRecords(nullptr, 0, &lost) == CUPTI_SUCCESS) dropped += lost;
  }

  /// The id of the name of a call.
  uint32_t call_name(bool runtime, CUpti_CallbackId id) {
    const uint64_t key = static_cast<uint64_t>(id) << 1 | (runtime ? 1 : 0);
    auto known = calls_.find(key);
    if (known != calls_.end()) return known->second;
    const char *text = nullptr;
    const auto domain = runtime ? CUPTI_CB_DOMAIN_RUNTIME_API : CUPTI_CB_DOMAIN_DRIVER_API;
    const bool found = cupti_.cuptiGetCallbackName(domain, id, &text) == CUPTI_SUCCESS && text != nullptr;
    return calls_[key] = file_.name(found ? text : ((runtime ? "runtime call " : "driver call ") + std::to_string(id)).c_str());
  }

  /// How many records CUPTI had no room or no times for.
  uint64_t dropped = 0;

private:
  void take(const CUpti_Activity *activity) {
    Record record;
    switch (activity->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto *kernel = reinterpret_cast<const CUpti_ActivityKernel10 *>(activity);
      record.kind = KERNEL;
      record.name = kernel_name(kernel->name);
      record.bytes = kernel->graphNodeId;
      place(record, kernel);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto *copy = reinterpret_cast<const CUpti_ActivityMemcpy6 *>(activity);
      record.kind = COPY;
      record.a = copy->copyKind;
      record.b = copy->srcKind;
      record.c = copy->dstKind;
      record.bytes = copy->bytes;
      place(record, copy);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY2: {
      const auto *copy = reinterpret_cast<const CUpti_ActivityMemcpyPtoP4 *>(activity);
      record.kind = COPY;
      record.a = copy->copyKind;
      record.b = copy->srcKind;
      record.c = copy->dstKind;
      record.bytes = copy->bytes;
      record.more = (copy->srcDeviceId + 1) << 16 | ((copy->dstDeviceId + 1) & 0xffff);
      place(record, copy);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto *set = reinterpret_cast<const CUpti_ActivityMemset4 *>(activity);
      record.kind = MEMSET;
      record.a = static_cast<uint8_t>(set->memoryKind);
      record.bytes = set->bytes;
      place(record, set);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMORY2: {
      const auto *memory = reinterpret_cast<const CUpti_ActivityMemory4 *>(activity);
      record.kind = ALLOCATION;
      record.a = static_cast<uint8_t>(memory->memoryKind);
      record.b = static_cast<uint8_t>(memory->memoryOperationType);
      // It happens at one time; the place of its end holds the address.
      record.start = static_cast<int64_t>(memory->timestamp);
      record.end = static_cast<int64_t>(memory->address);
      record.device = memory->deviceId;
      record.correlation = memory->correlationId;
      record.bytes = memory->bytes;
      // Releasing nothing is no release: programs call cudaFree(0) to begin with CUDA.
      if (memory->address == 0) return;
      describe(memory->deviceId);
      break;
    }
    default:
      return;
    }
    // CUPTI has no times of what it could not measure.
    if (record.start == 0 || record.end == 0) {
      dropped++;
      return;
    }
    file_.put(record);
  }

  template <class Work> void place(Record &record, const Work *work) {
    record.start = static_cast<int64_t>(work->start);
    record.end = static_cast<int64_t>(work->end);
    record.device = work->deviceId;
    record.track = work->streamId;
    record.correlation = work->correlationId;
    describe(work->deviceId);
  }

  uint32_t kernel_name(const char *mangled) {
    if (mangled == nullptr) return 0;
    auto known = kernels_.find(mangled);
    // A module that is unloaded gives its names' places back.
    if (known != kernels_.end() && known->second.first == mangled) return known->second.second;
    int status = 1;
    char *text = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
    const uint32_t id = file_.name(status == 0 && text != nullptr ? text : mangled);
    free(text);
    kernels_[mangled] = {mangled, id};
    return id;
  }

  /// Writes what a device is.
  void describe(uint32_t ordinal) {
    if (ordinal >= 64 || (described_ >> ordinal & 1) != 0) return;
    described_ |= uint64_t{1} << ordinal;
    const std::optional<Device> device = device_of(ordinal);
    if (!device) return;
    Record record;
    record.kind = GPU;
    record.device = ordinal;
    if (!device->name.empty()) record.name = file_.name(device->name.c_str());
    record.bytes = device->memory_bytes;
    record.correlation = static_cast<uint32_t>(device->processors);
    record.track = static_cast<uint32_t>(device->index + 1);
    file_.put(record);
  }

  const Cupti &cupti_;
  RawFile &file_;
  std::unordered_map<const char *, std::pair<std::string, uint32_t>> kernels_;
  std::unordered_map<uint64_t, uint32_t> calls_;
  uint64_t described_ = 0;
};

} // namespace trace
