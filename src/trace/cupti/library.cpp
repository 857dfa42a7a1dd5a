#include "library.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace trace {
namespace {

void *driver() { return dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL); }

template <class Function> Function find(void *library, const char *name) { return reinterpret_cast<Function>(dlsym(library, name)); }

/// Where CUPTI may lie: with the libraries of CUDA that are open in this process, and in toolkits.
std::vector<std::string> folders() {
  std::vector<std::string> found;
  if (FILE *maps = fopen("/proc/self/maps", "r")) {
    char line[4608];
    while (fgets(line, sizeof line, maps) != nullptr) {
      char *path = strchr(line, '/');
      char *name = path == nullptr ? nullptr : strrchr(path, '/');
      if (name == nullptr || (strncmp(name, "/libtorch_cpu.so", 16) != 0 && strncmp(name, "/libcudart", 10) != 0)) continue;
      std::string folder(path, name);
      for (const char *beside : {"", "/../../nvidia/cu13/lib", "/../../nvidia/cuda_cupti/lib", "/../../cuda_cupti/lib", "/../extras/CUPTI/lib64"}) {
        found.push_back(folder + beside);
      }
    }
    fclose(maps);
  }
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char *toolkit = getenv(variable)) found.push_back(std::string(toolkit) + "/extras/CUPTI/lib64");
  }
  found.push_back("/usr/local/cuda/extras/CUPTI/lib64");
  return found;
}

void *load_cupti() {
  const char *named = getenv("MULTICARD_CUPTI");
  if (named != nullptr && *named != 0) return dlopen(named, RTLD_NOW | RTLD_LOCAL);
  const char *name = "libcupti.so.13";
  if (void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
  for (const std::string &folder : folders()) {
    if (void *library = dlopen((folder + "/" + name).c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

int index_of(const CUuuid &uuid) {
  std::string text = "GPU-";
  for (int at = 0; at < 16; at++) {
    char digits[3];
    snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(uuid.bytes[at]));
    if (at == 4 || at == 6 || at == 8 || at == 10) text += '-';
    text += digits;
  }
  void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (nvml == nullptr) return -1;
  auto init = find<int (*)()>(nvml, "nvmlInit_v2");
  auto by_uuid = find<int (*)(const char *, void **)>(nvml, "nvmlDeviceGetHandleByUUID");
  auto index = find<int (*)(void *, unsigned *)>(nvml, "nvmlDeviceGetIndex");
  void *handle = nullptr;
  unsigned found = 0;
  const bool well = init != nullptr && by_uuid != nullptr && index != nullptr && init() == 0 && by_uuid(text.c_str(), &handle) == 0 &&
                    index(handle, &found) == 0;
  return well ? static_cast<int>(found) : -1;
}

} // namespace

std::string Cupti::open() {
  // CUPTI itself only says that something is unknown.
  if (driver() == nullptr) return "there is no NVIDIA driver (libcuda.so.1)";
  void *library = load_cupti();
  if (library == nullptr) {
    return "libcupti.so.13 was not found (beside libtorch, on the library path, or in CUDA's toolkit); install nvidia-cuda-cupti, or name its "
           "file in MULTICARD_CUPTI";
  }
#define FIND(name)                               \
  name = find<decltype(name)>(library, #name);   \
  if (name == nullptr) return std::string("this CUPTI has no ") + #name
  FIND(cuptiGetVersion);
  FIND(cuptiGetResultString);
  FIND(cuptiSubscribe);
  FIND(cuptiEnableCallback);
  FIND(cuptiEnableDomain);
  FIND(cuptiSetThreadIdType);
  FIND(cuptiActivityRegisterTimestampCallback);
  FIND(cuptiActivityRegisterCallbacks);
  FIND(cuptiActivitySetAttribute);
  FIND(cuptiActivityEnable);
  FIND(cuptiActivityDisable);
  FIND(cuptiActivityFlushAll);
  FIND(cuptiActivityGetNextRecord);
  FIND(cuptiActivityGetNumDroppedRecords);
  FIND(cuptiGetCallbackName);
  FIND(cuptiGetStreamIdEx);
#undef FIND
  uint32_t version = 0;
  if (cuptiGetVersion(&version) != CUPTI_SUCCESS || version / 10000 != CUPTI_API_VERSION / 10000) {
    return "its CUPTI has version " + std::to_string(version) + ", and this tracer reads the records of " + std::to_string(CUPTI_API_VERSION) +
           ": it needs CUDA " + std::to_string(CUPTI_API_VERSION / 10000);
  }
  return "";
}

std::string Cupti::words(CUptiResult result) const {
  const char *text = nullptr;
  if (cuptiGetResultString(result, &text) != CUPTI_SUCCESS || text == nullptr) return "error " + std::to_string(result);
  return text;
}

std::optional<Device> device_of(uint32_t ordinal) {
  void *library = driver();
  if (library == nullptr) return std::nullopt;
  auto device_get = find<CUresult (*)(CUdevice *, int)>(library, "cuDeviceGet");
  auto get_name = find<CUresult (*)(char *, int, CUdevice)>(library, "cuDeviceGetName");
  auto get_uuid = find<CUresult (*)(CUuuid *, CUdevice)>(library, "cuDeviceGetUuid_v2");
  auto get_memory = find<CUresult (*)(size_t *, CUdevice)>(library, "cuDeviceTotalMem_v2");
  auto get_attribute = find<CUresult (*)(int *, CUdevice_attribute, CUdevice)>(library, "cuDeviceGetAttribute");
  CUdevice device;
  if (device_get == nullptr || device_get(&device, static_cast<int>(ordinal)) != CUDA_SUCCESS) return std::nullopt;
  Device found;
  char text[256] = "";
  if (get_name != nullptr && get_name(text, sizeof text, device) == CUDA_SUCCESS) found.name = text;
  if (get_memory == nullptr || get_memory(&found.memory_bytes, device) != CUDA_SUCCESS) found.memory_bytes = 0;
  if (get_attribute == nullptr || get_attribute(&found.processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device) != CUDA_SUCCESS) {
    found.processors = 0;
  }
  CUuuid uuid;
  if (get_uuid != nullptr && get_uuid(&uuid, device) == CUDA_SUCCESS) found.index = index_of(uuid);
  return found;
}

} // namespace trace
