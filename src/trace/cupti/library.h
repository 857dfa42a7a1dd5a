// NVIDIA's libraries, opened at run time: without them the tracer says what is missing, and the program goes on.
#pragma once

#include <cupti.h>

#include <optional>
#include <string>

namespace trace {

/// Functions of CUPTI.
struct Cupti {
#define FUNCTION(name) decltype(&::name) name = nullptr
  FUNCTION(cuptiGetVersion);
  FUNCTION(cuptiGetResultString);
  FUNCTION(cuptiSubscribe);
  FUNCTION(cuptiEnableCallback);
  FUNCTION(cuptiEnableDomain);
  FUNCTION(cuptiSetThreadIdType);
  FUNCTION(cuptiActivityRegisterTimestampCallback);
  FUNCTION(cuptiActivityRegisterCallbacks);
  FUNCTION(cuptiActivitySetAttribute);
  FUNCTION(cuptiActivityEnable);
  FUNCTION(cuptiActivityDisable);
  FUNCTION(cuptiActivityFlushAll);
  FUNCTION(cuptiActivityGetNextRecord);
  FUNCTION(cuptiActivityGetNumDroppedRecords);
  FUNCTION(cuptiGetCallbackName);
  FUNCTION(cuptiGetStreamIdEx);
#undef FUNCTION

  /// Why it cannot be used; empty if it can.
  std::string open();

  std::string words(CUptiResult result) const;
};

/// A device of this process.
struct Device {
  std::string name;
  size_t memory_bytes = 0;
  int processors = 0;
  /// Its index on the machine, as CUDA numbers only devices that the process sees; -1 if NVML does not say.
  int index = -1;
};

/// The device of an ordinal of CUDA, if the driver knows it.
std::optional<Device> device_of(uint32_t ordinal);

} // namespace trace
