// The tracer of CUDA's activity: libmulticard_cupti.so. The worker opens it, and any program has it where CUDA_INJECTION64_PATH and
// NVTX_INJECTION64_PATH name it: then CUDA's driver and NVTX load it.
//
// It writes what CUPTI records of one process to one raw file, whose format `raw.rs` documents and reads. Buffers that CUPTI has filled
// are put on a list; a thread of the tracer makes records of them, so that the program's threads wait for no file. CUPTI itself is opened
// at run time: without it, or without a driver, the raw file says why it holds no calls and kernels.
#include <cupti.h>
#include <cxxabi.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace {

constexpr size_t BUFFER_BYTES = 2 << 20;
constexpr size_t OUT_BYTES = 1 << 20;
constexpr size_t MOST_RANGES_WAITING = 1 << 14;
constexpr auto FLUSH_INTERVAL = std::chrono::seconds(1);
/// Ids of names that NVTX gave; those that the writing thread finds count from 1.
constexpr uint32_t OF_NVTX = 0x80000000;

enum Kind : uint8_t {
  STRING = 1, KERNEL, COPY, MEMSET, CALL, SYNCHRONISATION, RANGE, DOMAIN_NAME, GPU, WINDOW, PROBLEM, LEFT_OUT, END
};

/// A record of the raw file; see `raw.rs`.
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
  uint8_t version = 1, zeros[3] = {};
  int64_t process = 0;
  int32_t rank = -1;
  uint32_t cupti = 0;
  int64_t realtime_offset = 0;
  uint8_t more[16] = {};
};
static_assert(sizeof(Header) == 48, "the reader's size");

int64_t clock_ns(clockid_t id) {
  timespec now;
  clock_gettime(id, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/// All processes of a machine share it, and it is the clock of the ranks' own ranges.
int64_t now_ns() { return clock_ns(CLOCK_MONOTONIC); }

uint64_t CUPTIAPI timestamp() { return static_cast<uint64_t>(now_ns()); }

uint32_t this_thread() {
  static thread_local uint32_t id = static_cast<uint32_t>(syscall(SYS_gettid));
  return id;
}

/// Functions of CUPTI, found at run time.
struct Cupti {
#define FUNCTION(name) decltype(&::name) name = nullptr
  FUNCTION(cuptiGetVersion);
  FUNCTION(cuptiGetResultString);
  FUNCTION(cuptiSubscribe);
  FUNCTION(cuptiUnsubscribe);
  FUNCTION(cuptiSetThreadIdType);
  FUNCTION(cuptiActivityRegisterTimestampCallback);
  FUNCTION(cuptiActivityRegisterCallbacks);
  FUNCTION(cuptiActivityEnable);
  FUNCTION(cuptiActivityDisable);
  FUNCTION(cuptiActivityEnableRuntimeApi);
  FUNCTION(cuptiActivityEnableDriverApi);
  FUNCTION(cuptiActivityFlushAll);
  FUNCTION(cuptiActivityGetNextRecord);
  FUNCTION(cuptiActivityGetNumDroppedRecords);
  FUNCTION(cuptiGetCallbackName);
#undef FUNCTION

  /// Why it cannot be used; empty if it can.
  std::string open() {
    // CUPTI itself only says that something is unknown.
    if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) == nullptr) return "there is no NVIDIA driver (libcuda.so.1)";
    void *library = load();
    if (library == nullptr) {
      return "libcupti.so.13 was not found (beside libtorch, on the library path, or in CUDA's toolkit); install nvidia-cuda-cupti, or name its "
             "file in MULTICARD_CUPTI";
    }
#define FIND(name)                                                                   \
  name = reinterpret_cast<decltype(name)>(dlsym(library, #name));                    \
  if (name == nullptr) return std::string("this CUPTI has no ") + #name
    FIND(cuptiGetVersion);
    FIND(cuptiGetResultString);
    FIND(cuptiSubscribe);
    FIND(cuptiUnsubscribe);
    FIND(cuptiSetThreadIdType);
    FIND(cuptiActivityRegisterTimestampCallback);
    FIND(cuptiActivityRegisterCallbacks);
    FIND(cuptiActivityEnable);
    FIND(cuptiActivityDisable);
    FIND(cuptiActivityEnableRuntimeApi);
    FIND(cuptiActivityEnableDriverApi);
    FIND(cuptiActivityFlushAll);
    FIND(cuptiActivityGetNextRecord);
    FIND(cuptiActivityGetNumDroppedRecords);
    FIND(cuptiGetCallbackName);
#undef FIND
    uint32_t version = 0;
    if (cuptiGetVersion(&version) != CUPTI_SUCCESS || version / 10000 != CUPTI_API_VERSION / 10000) {
      return "its CUPTI has version " + std::to_string(version) + ", and this tracer reads the records of " +
             std::to_string(CUPTI_API_VERSION) + ": it needs CUDA " + std::to_string(CUPTI_API_VERSION / 10000);
    }
    return "";
  }

  std::string words(CUptiResult result) {
    const char *text = nullptr;
    if (cuptiGetResultString(result, &text) != CUPTI_SUCCESS || text == nullptr) return "error " + std::to_string(result);
    return text;
  }

private:
  static void *load() {
    const char *named = getenv("MULTICARD_CUPTI");
    if (named != nullptr && *named != 0) return dlopen(named, RTLD_NOW | RTLD_LOCAL);
    const char *name = "libcupti.so.13";
    if (void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
    for (const std::string &folder : folders()) {
      if (void *library = dlopen((folder + "/" + name).c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    }
    return nullptr;
  }

  /// Where it may lie: with the libraries of CUDA that are open in this process, and in toolkits.
  static std::vector<std::string> folders() {
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
};

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

/// Launches by the driver's own functions, as of kernels that were compiled at run time.
const CUpti_CallbackId DRIVER_LAUNCHES[] = {
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
    CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
};

const CUpti_ActivityKind ON_GPUS[] = {
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET,
    CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
};

struct Buffer {
  uint8_t *bytes;
  size_t valid;
};

/// A tracer of this process. It is never destroyed: threads may call it until the process is gone.
class Tracer {
public:
  /// Opens the raw file in a folder. Why it cannot; empty if it can.
  std::string open(const char *folder, int rank) {
    Header header;
    header.process = getpid();
    header.rank = rank;
    header.realtime_offset = clock_ns(CLOCK_REALTIME) - now_ns();
    std::string problem = cupti_.open();
    has_cupti_ = problem.empty();
    if (has_cupti_) cupti_.cuptiGetVersion(&header.cupti);
    for (int number = 0; file_ < 0 && number < 100; number++) {
      path_ = std::string(folder) + "/trace-" + std::to_string(header.process) + "-" + std::to_string(number) + ".cupti";
      file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
      if (file_ < 0 && errno != EEXIST) break;
    }
    if (file_ < 0) return "cannot make " + path_ + ": " + strerror(errno);
    put(&header, sizeof header);
    if (has_cupti_) problem = subscribe();
    if (!problem.empty()) say(PROBLEM, problem);
    thread_ = std::thread([this] { write_until_closed(); });
    return "";
  }

  bool has_cupti() const { return has_cupti_; }

  /// Begins to record, or goes on.
  void resume() {
    if (recording_since_.exchange(now_ns()) != 0 || !has_cupti_) return;
    std::string problem;
    for (CUpti_ActivityKind kind : ON_GPUS) enable(kind, problem);
    const char *calls = getenv("MULTICARD_TRACE_CALLS");
    const bool driver = calls != nullptr && strcmp(calls, "driver") == 0;
    if (calls == nullptr || strcmp(calls, "none") != 0) {
      enable(CUPTI_ACTIVITY_KIND_RUNTIME, problem);
      for (const auto &[id, name] : NOISE) cupti_.cuptiActivityEnableRuntimeApi(id, 0);
      if (driver) enable(CUPTI_ACTIVITY_KIND_DRIVER, problem);
      if (calls == nullptr) {
        for (CUpti_CallbackId id : DRIVER_LAUNCHES) cupti_.cuptiActivityEnableDriverApi(id, 1);
      }
      if (!said_left_out_) {
        said_left_out_ = true;
        std::string names;
        for (const auto &[id, name] : NOISE) {
          if (names.find(name) == std::string::npos) names += (names.empty() ? "" : ", ") + std::string(name);
        }
        queue_text(LEFT_OUT, names);
      }
    }
    if (!problem.empty()) queue_text(PROBLEM, problem);
  }

  /// Ends recording until it is resumed.
  void pause() {
    const int64_t since = recording_since_.exchange(0);
    if (since == 0) return;
    if (has_cupti_) {
      cupti_.cuptiActivityFlushAll(1);
      for (CUpti_ActivityKind kind : ON_GPUS) cupti_.cuptiActivityDisable(kind);
      for (CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER}) cupti_.cuptiActivityDisable(kind);
      for (CUpti_CallbackId id : DRIVER_LAUNCHES) cupti_.cuptiActivityEnableDriverApi(id, 0);
      cupti_.cuptiActivityFlushAll(1);
    }
    Record window;
    window.kind = WINDOW;
    window.start = since;
    window.end = now_ns();
    queue(window);
  }

  /// Writes everything that is left.
  void close() {
    if (closed_.exchange(true)) return;
    pause();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ended_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

  bool records() const { return recording_since_.load(std::memory_order_relaxed) != 0; }

  uint8_t *buffer() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (free_.empty()) return static_cast<uint8_t *>(aligned_alloc(4096, BUFFER_BYTES));
    uint8_t *bytes = free_.back();
    free_.pop_back();
    return bytes;
  }

  void filled(uint8_t *bytes, size_t valid) {
    bool many;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      (valid == 0 ? void(free_.push_back(bytes)) : void(filled_.push_back({bytes, valid})));
      many = !filled_.empty();
    }
    if (many) wake_.notify_one();
  }

  /// The id of a name that NVTX gave.
  uint32_t nvtx_name(const char *text) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto found = nvtx_names_.find(text);
    if (found != nvtx_names_.end()) return found->second;
    const uint32_t id = OF_NVTX + static_cast<uint32_t>(nvtx_names_.size()) + 1;
    nvtx_names_.emplace(text, id);
    waiting_texts_.emplace_back(Record{STRING, 0, 0, 0, id}, text);
    return id;
  }

  void queue(const Record &record) {
    bool many;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      waiting_.push_back(record);
      many = waiting_.size() >= MOST_RANGES_WAITING;
    }
    if (many) wake_.notify_one();
  }

private:
  std::string subscribe() {
    // Whoever subscribes first has CUPTI to himself: two who register buffers take each other's records.
    CUptiResult result = cupti_.cuptiSubscribe(&subscriber_, [](void *, CUpti_CallbackDomain, CUpti_CallbackId, const void *) {}, nullptr);
    std::string tried = "subscribing to CUPTI";
    if (result == CUPTI_SUCCESS) {
      cupti_.cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
      result = cupti_.cuptiActivityRegisterTimestampCallback(timestamp);
      tried = "giving CUPTI a clock";
    }
    if (result == CUPTI_SUCCESS) {
      result = cupti_.cuptiActivityRegisterCallbacks(request, complete);
      tried = "giving CUPTI buffers";
    }
    if (result == CUPTI_SUCCESS) return "";
    has_cupti_ = false;
    if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED) {
      return "another profiler has CUPTI in this process, and it serves one at a time: end nsys, ncu or PyTorch's profiler, or trace without "
             "this tracer";
    }
    return tried + " failed: " + cupti_.words(result);
  }

  void enable(CUpti_ActivityKind kind, std::string &problem) {
    const CUptiResult result = cupti_.cuptiActivityEnable(kind);
    if (result != CUPTI_SUCCESS && problem.empty()) problem = "CUPTI records nothing: " + cupti_.words(result);
  }

  static void CUPTIAPI request(uint8_t **buffer, size_t *size, size_t *most);
  static void CUPTIAPI complete(CUcontext, uint32_t, uint8_t *buffer, size_t, size_t valid);

  void queue_text(Kind kind, const std::string &text) {
    std::lock_guard<std::mutex> lock(mutex_);
    Record record;
    record.kind = kind;
    waiting_texts_.emplace_back(record, text);
  }

  // What follows belongs to the writing thread, and to `open` before there is one.

  void write_until_closed() {
    pthread_setname_np(pthread_self(), "multicard-trace");
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    auto flushed = std::chrono::steady_clock::now();
    for (bool last = false; !last;) {
      std::vector<Buffer> buffers;
      std::vector<Record> records;
      std::vector<std::pair<Record, std::string>> texts;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait_for(lock, FLUSH_INTERVAL, [this] { return ended_ || !filled_.empty() || waiting_.size() >= MOST_RANGES_WAITING; });
        buffers.swap(filled_);
        records.swap(waiting_);
        texts.swap(waiting_texts_);
        last = ended_;
      }
      for (const auto &[record, text] : texts) put_text(record, text);
      for (const Record &record : records) put(record);
      for (const Buffer &buffer : buffers) take(buffer);
      if (last || std::chrono::steady_clock::now() - flushed >= FLUSH_INTERVAL) {
        flushed = std::chrono::steady_clock::now();
        if (last) {
          Record end;
          end.kind = END;
          end.bytes = dropped_;
          put(end);
        } else if (records_gpus()) {
          // Buffers that are not full, so that little is lost with a process that is killed.
          cupti_.cuptiActivityFlushAll(0);
        }
        flush();
      }
    }
  }

  bool records_gpus() const { return has_cupti_ && records(); }

  void take(const Buffer &buffer) {
    CUpti_Activity *activity = nullptr;
    while (cupti_.cuptiActivityGetNextRecord(buffer.bytes, buffer.valid, &activity) == CUPTI_SUCCESS) take(activity);
    size_t dropped = 0;
    if (cupti_.cuptiActivityGetNumDroppedRecords(nullptr, 0, &dropped) == CUPTI_SUCCESS) dropped_ += dropped;
    std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(buffer.bytes);
  }

  void take(const CUpti_Activity *activity) {
    Record record;
    switch (activity->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: {
      const auto *of = reinterpret_cast<const CUpti_ActivityKernel10 *>(activity);
      record.kind = KERNEL;
      record.name = kernel_name(of->name);
      record.bytes = of->graphNodeId;
      place(record, of);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto *of = reinterpret_cast<const CUpti_ActivityMemcpy6 *>(activity);
      record.kind = COPY;
      record.a = of->copyKind;
      record.b = of->srcKind;
      record.c = of->dstKind;
      record.bytes = of->bytes;
      place(record, of);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY2: {
      const auto *of = reinterpret_cast<const CUpti_ActivityMemcpyPtoP4 *>(activity);
      record.kind = COPY;
      record.a = of->copyKind;
      record.b = of->srcKind;
      record.c = of->dstKind;
      record.bytes = of->bytes;
      record.more = (of->srcDeviceId + 1) << 16 | ((of->dstDeviceId + 1) & 0xffff);
      place(record, of);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto *of = reinterpret_cast<const CUpti_ActivityMemset4 *>(activity);
      record.kind = MEMSET;
      record.a = static_cast<uint8_t>(of->memoryKind);
      record.bytes = of->bytes;
      place(record, of);
      break;
    }
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER: {
      const auto *of = reinterpret_cast<const CUpti_ActivityAPI *>(activity);
      record.kind = CALL;
      record.name = call_name(activity->kind == CUPTI_ACTIVITY_KIND_RUNTIME, of->cbid);
      record.start = static_cast<int64_t>(of->start);
      record.end = static_cast<int64_t>(of->end);
      record.track = of->threadId;
      record.correlation = of->correlationId;
      break;
    }
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION: {
      const auto *of = reinterpret_cast<const CUpti_ActivitySynchronization2 *>(activity);
      record.kind = SYNCHRONISATION;
      record.a = static_cast<uint8_t>(of->type);
      record.start = static_cast<int64_t>(of->start);
      record.end = static_cast<int64_t>(of->end);
      record.track = of->streamId == static_cast<uint32_t>(CUPTI_SYNCHRONIZATION_INVALID_VALUE) ? 0 : of->streamId;
      record.correlation = of->correlationId;
      break;
    }
    default:
      return;
    }
    // CUPTI has no times of what it could not measure.
    if (record.start == 0 || record.end == 0) {
      dropped_++;
      return;
    }
    put(record);
  }

  template <class Work> void place(Record &record, const Work *of) {
    record.start = static_cast<int64_t>(of->start);
    record.end = static_cast<int64_t>(of->end);
    record.device = of->deviceId;
    record.track = of->streamId;
    record.correlation = of->correlationId;
    describe(of->deviceId);
  }

  uint32_t kernel_name(const char *mangled) {
    if (mangled == nullptr) return 0;
    auto known = kernels_.find(mangled);
    // A module that is unloaded gives its names' places back.
    if (known != kernels_.end() && known->second.first == mangled) return known->second.second;
    int status = 1;
    char *text = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
    const uint32_t id = name(status == 0 && text != nullptr ? text : mangled);
    free(text);
    kernels_[mangled] = {mangled, id};
    return id;
  }

  uint32_t call_name(bool runtime, CUpti_CallbackId id) {
    const uint64_t key = static_cast<uint64_t>(id) << 1 | (runtime ? 1 : 0);
    auto known = calls_.find(key);
    if (known != calls_.end()) return known->second;
    const char *text = nullptr;
    const auto domain = runtime ? CUPTI_CB_DOMAIN_RUNTIME_API : CUPTI_CB_DOMAIN_DRIVER_API;
    const bool found = cupti_.cuptiGetCallbackName(domain, id, &text) == CUPTI_SUCCESS && text != nullptr;
    return calls_[key] = name(found ? text : ((runtime ? "runtime call " : "driver call ") + std::to_string(id)).c_str());
  }

  uint32_t name(const char *text) {
    auto [place, is_new] = names_.emplace(text, static_cast<uint32_t>(names_.size()) + 1);
    if (is_new) put_text(Record{STRING, 0, 0, 0, place->second}, place->first);
    return place->second;
  }

  /// Writes what a device is: its index on the machine by NVML, as CUDA numbers only those that this process sees.
  void describe(uint32_t ordinal) {
    if (ordinal < 64 && (described_ >> ordinal & 1) != 0) return;
    if (ordinal < 64) described_ |= uint64_t{1} << ordinal;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (driver == nullptr || ordinal >= 64) return;
    auto device_get = reinterpret_cast<CUresult (*)(CUdevice *, int)>(dlsym(driver, "cuDeviceGet"));
    auto get_name = reinterpret_cast<CUresult (*)(char *, int, CUdevice)>(dlsym(driver, "cuDeviceGetName"));
    auto get_uuid = reinterpret_cast<CUresult (*)(CUuuid *, CUdevice)>(dlsym(driver, "cuDeviceGetUuid_v2"));
    auto get_memory = reinterpret_cast<CUresult (*)(size_t *, CUdevice)>(dlsym(driver, "cuDeviceTotalMem_v2"));
    auto get_attribute = reinterpret_cast<CUresult (*)(int *, CUdevice_attribute, CUdevice)>(dlsym(driver, "cuDeviceGetAttribute"));
    CUdevice device;
    if (device_get == nullptr || device_get(&device, static_cast<int>(ordinal)) != CUDA_SUCCESS) return;
    Record record;
    record.kind = GPU;
    record.device = ordinal;
    char text[256] = "";
    if (get_name != nullptr && get_name(text, sizeof text, device) == CUDA_SUCCESS) record.name = name(text);
    size_t memory = 0;
    if (get_memory != nullptr && get_memory(&memory, device) == CUDA_SUCCESS) record.bytes = memory;
    int processors = 0;
    if (get_attribute != nullptr && get_attribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device) == CUDA_SUCCESS) {
      record.correlation = static_cast<uint32_t>(processors);
    }
    CUuuid uuid;
    if (get_uuid != nullptr && get_uuid(&uuid, device) == CUDA_SUCCESS) record.track = index_of(uuid) + 1;
    put(record);
  }

  /// The machine's index of a GPU; -1 if NVML does not say.
  static int index_of(const CUuuid &uuid) {
    std::string text = "GPU-";
    for (int at = 0; at < 16; at++) {
      char digits[3];
      snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(uuid.bytes[at]));
      if (at == 4 || at == 6 || at == 8 || at == 10) text += '-';
      text += digits;
    }
    void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (nvml == nullptr) return -1;
    auto init = reinterpret_cast<int (*)()>(dlsym(nvml, "nvmlInit_v2"));
    auto by_uuid = reinterpret_cast<int (*)(const char *, void **)>(dlsym(nvml, "nvmlDeviceGetHandleByUUID"));
    auto index = reinterpret_cast<int (*)(void *, unsigned *)>(dlsym(nvml, "nvmlDeviceGetIndex"));
    void *handle = nullptr;
    unsigned found = 0;
    const bool well = init != nullptr && by_uuid != nullptr && index != nullptr && init() == 0 && by_uuid(text.c_str(), &handle) == 0 &&
                      index(handle, &found) == 0;
    return well ? static_cast<int>(found) : -1;
  }

  void say(Kind kind, const std::string &text) {
    Record record;
    record.kind = kind;
    put_text(record, text);
  }

  void put_text(Record record, const std::string &text) {
    record.bytes = text.size();
    put(record);
    put(text.data(), text.size());
  }

  void put(const Record &record) { put(&record, sizeof record); }

  void put(const void *bytes, size_t length) {
    out_.append(static_cast<const char *>(bytes), length);
    if (out_.size() >= OUT_BYTES) flush();
  }

  void flush() {
    size_t done = 0;
    while (done < out_.size() && file_ >= 0) {
      const ssize_t written = ::write(file_, out_.data() + done, out_.size() - done);
      if (written > 0) {
        done += static_cast<size_t>(written);
      } else if (errno != EINTR) {
        // A full disk must not end the program; the file says itself that its end is missing.
        fprintf(stderr, "multicard: the trace ends here, as writing %s failed: %s\n", path_.c_str(), strerror(errno));
        ::close(file_);
        file_ = -1;
      }
    }
    out_.clear();
  }

  Cupti cupti_;
  bool has_cupti_ = false, said_left_out_ = false;
  CUpti_SubscriberHandle subscriber_ = nullptr;
  std::string path_;
  int file_ = -1;
  std::thread thread_;
  /// Since when it records; 0 while it does not.
  std::atomic<int64_t> recording_since_{0};
  std::atomic<bool> closed_{false};

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<uint8_t *> free_;
  std::vector<Buffer> filled_;
  std::vector<Record> waiting_;
  std::vector<std::pair<Record, std::string>> waiting_texts_;
  std::unordered_map<std::string, uint32_t> nvtx_names_;
  bool ended_ = false;

  std::string out_;
  std::unordered_map<std::string, uint32_t> names_;
  std::unordered_map<const char *, std::pair<std::string, uint32_t>> kernels_;
  std::unordered_map<uint64_t, uint32_t> calls_;
  uint64_t described_ = 0, dropped_ = 0;
};

std::atomic<Tracer *> tracer{nullptr};

void CUPTIAPI Tracer::request(uint8_t **buffer, size_t *size, size_t *most) {
  Tracer *of = tracer.load();
  *buffer = of == nullptr ? nullptr : of->buffer();
  *size = *buffer == nullptr ? 0 : BUFFER_BYTES;
  *most = 0;
}

void CUPTIAPI Tracer::complete(CUcontext, uint32_t, uint8_t *buffer, size_t, size_t valid) {
  if (Tracer *of = tracer.load()) of->filled(buffer, valid);
}

void close_tracer() {
  if (Tracer *of = tracer.load()) of->close();
}

/// Why the last `multicard_trace_open` failed.
std::string failure;

/// Opens the tracer of this process, once. Whether there is one.
bool open_tracer(const char *folder, int rank) {
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  if (tracer.load() != nullptr) return true;
  auto *opened = new Tracer;
  // CUPTI may ask for buffers from now on.
  tracer.store(opened);
  failure = opened->open(folder, rank);
  if (!failure.empty()) {
    tracer.store(nullptr);
    return false;
  }
  static std::once_flag once;
  std::call_once(once, [] {
    atexit(close_tracer);
    // A child that is forked has none of the threads: it is another process, which records nothing until CUDA is used in it.
    pthread_atfork(nullptr, nullptr, [] { tracer.store(nullptr); });
  });
  return true;
}

/// Opens it for a program that was started with this library in its environment.
bool injected() {
  const char *folder = getenv("MULTICARD_TRACE_FOLDER");
  if (folder == nullptr || *folder == 0) return false;
  const char *rank = getenv("RANK");
  if (!open_tracer(folder, rank == nullptr || *rank == 0 ? -1 : atoi(rank))) {
    fprintf(stderr, "multicard: there is no trace of process %d: %s\n", getpid(), failure.c_str());
    return false;
  }
  tracer.load()->resume();
  return true;
}

// NVTX: the functions that programs call for their ranges. A program hands out tables of pointers, which are set to these.

struct Attributes {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  uint64_t payload;
  int32_t message_type;
  const void *message;
};

struct Open {
  uint32_t name;
  uint32_t domain;
  int64_t start;
};

constexpr int32_t TEXT = 1, REGISTERED = 3;

thread_local std::vector<Open> pushed;

uint32_t name_of(Tracer *of, const Attributes *attributes) {
  if (attributes == nullptr || attributes->message == nullptr) return 0;
  if (attributes->message_type == TEXT) return of->nvtx_name(static_cast<const char *>(attributes->message));
  // Strings that were registered here are their ids.
  if (attributes->message_type == REGISTERED) return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(attributes->message));
  return 0;
}

void end_range(Tracer *of, const Open &range, uint32_t thread) {
  Record record;
  record.kind = RANGE;
  record.name = range.name;
  record.start = range.start;
  record.end = now_ns();
  record.track = thread;
  record.bytes = range.domain;
  of->queue(record);
}

int push(uint32_t domain, const char *text, const Attributes *attributes) {
  Tracer *of = tracer.load(std::memory_order_acquire);
  const bool on = of != nullptr && of->records();
  // What began while nothing was recorded has no start.
  pushed.push_back({on ? (text != nullptr ? of->nvtx_name(text) : name_of(of, attributes)) : 0, domain, on ? now_ns() : 0});
  return static_cast<int>(pushed.size()) - 1;
}

int pop() {
  if (pushed.empty()) return -1;
  const Open range = pushed.back();
  pushed.pop_back();
  Tracer *of = tracer.load(std::memory_order_acquire);
  if (of != nullptr && range.start != 0 && of->records()) end_range(of, range, this_thread());
  return static_cast<int>(pushed.size());
}

std::mutex started_mutex;
std::unordered_map<uint64_t, std::pair<Open, uint32_t>> started;

uint64_t start_range(uint32_t domain, const char *text, const Attributes *attributes) {
  static std::atomic<uint64_t> next{1};
  Tracer *of = tracer.load(std::memory_order_acquire);
  if (of == nullptr || !of->records()) return 0;
  const Open range{text != nullptr ? of->nvtx_name(text) : name_of(of, attributes), domain, now_ns()};
  const uint64_t id = next.fetch_add(1);
  std::lock_guard<std::mutex> lock(started_mutex);
  started.emplace(id, std::make_pair(range, this_thread()));
  return id;
}

void finish_range(uint64_t id) {
  std::pair<Open, uint32_t> range;
  {
    std::lock_guard<std::mutex> lock(started_mutex);
    auto found = started.find(id);
    if (found == started.end()) return;
    range = found->second;
    started.erase(found);
  }
  Tracer *of = tracer.load(std::memory_order_acquire);
  if (of != nullptr) end_range(of, range.first, range.second);
}

using Domain = void *;

uint32_t number(Domain domain) { return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(domain)); }

Domain create_domain(const char *name) {
  static std::atomic<uint32_t> next{1};
  Tracer *of = tracer.load(std::memory_order_acquire);
  const uint32_t id = next.fetch_add(1);
  if (of != nullptr && name != nullptr) {
    Record record;
    record.kind = DOMAIN_NAME;
    record.name = of->nvtx_name(name);
    record.bytes = id;
    of->queue(record);
  }
  return reinterpret_cast<Domain>(static_cast<uintptr_t>(id));
}

void *register_string(Domain, const char *text) {
  Tracer *of = tracer.load(std::memory_order_acquire);
  return reinterpret_cast<void *>(static_cast<uintptr_t>(of == nullptr || text == nullptr ? 0 : of->nvtx_name(text)));
}

// From nvtx3/nvtxDetail/nvtxTypes.h: modules and the places of their functions.
constexpr int MODULE_CORE = 1, MODULE_CORE2 = 5;
constexpr uint32_t TABLE_CALLBACKS = 1;

struct Callbacks {
  size_t size;
  int (*module)(int module, void ****slots, unsigned *count);
};

void fill(const Callbacks *callbacks, int module, std::initializer_list<std::pair<unsigned, void *>> functions) {
  void ***slots = nullptr;
  unsigned count = 0;
  if (callbacks->module(module, &slots, &count) == 0 || slots == nullptr) return;
  for (const auto &[place, function] : functions) {
    if (place < count && slots[place] != nullptr) *slots[place] = function;
  }
}

template <class Function> void *pointer(Function *function) { return reinterpret_cast<void *>(function); }

} // namespace

/// Opens the raw file of this process in a folder, without recording yet. Null, or why there is none, until the next call. `rank` is -1
/// if it is not known.
EXPORTED const char *multicard_trace_open(const char *folder, int rank) {
  return open_tracer(folder, rank) ? nullptr : failure.c_str();
}

EXPORTED void multicard_trace_resume() {
  if (Tracer *of = tracer.load()) of->resume();
}

EXPORTED void multicard_trace_pause() {
  if (Tracer *of = tracer.load()) of->pause();
}

EXPORTED void multicard_trace_close() { close_tracer(); }

/// CUDA's driver calls this in a program whose CUDA_INJECTION64_PATH names this library.
EXPORTED int InitializeInjection() {
  injected();
  return 1;
}

/// NVTX calls this in a program whose NVTX_INJECTION64_PATH names this library.
EXPORTED int InitializeInjectionNvtx2(const void *(*table)(uint32_t)) {
  if (table == nullptr || !injected()) return 0;
  const auto *callbacks = static_cast<const Callbacks *>(table(TABLE_CALLBACKS));
  if (callbacks == nullptr || callbacks->size < sizeof(Callbacks)) return 0;
  fill(callbacks, MODULE_CORE,
       {{4, pointer(+[](const Attributes *of) { return start_range(0, nullptr, of); })},
        {5, pointer(+[](const char *text) { return start_range(0, text, nullptr); })},
        {7, pointer(+[](uint64_t id) { finish_range(id); })},
        {8, pointer(+[](const Attributes *of) { return push(0, nullptr, of); })},
        {9, pointer(+[](const char *text) { return push(0, text, nullptr); })},
        {11, pointer(+[] { return pop(); })}});
  fill(callbacks, MODULE_CORE2,
       {{2, pointer(+[](Domain domain, const Attributes *of) { return start_range(number(domain), nullptr, of); })},
        {3, pointer(+[](Domain, uint64_t id) { finish_range(id); })},
        {4, pointer(+[](Domain domain, const Attributes *of) { return push(number(domain), nullptr, of); })},
        {5, pointer(+[](Domain) { return pop(); })},
        {10, pointer(+[](Domain domain, const char *text) { return register_string(domain, text); })},
        {12, pointer(+[](const char *name) { return create_domain(name); })}});
  return 1;
}
