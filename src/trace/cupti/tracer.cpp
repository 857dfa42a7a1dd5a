// The tracer of CUDA's activity: libmulticard_cupti.so. The worker opens it, and any program has it where CUDA_INJECTION64_PATH and
// NVTX_INJECTION64_PATH name it: then CUDA's driver and NVTX load it.
//
// It writes what CUPTI records of one process to one raw file, whose format `raw.rs` documents and reads. Buffers that CUPTI has filled
// are put on a list; a thread of the tracer makes records of them, so that the program's threads wait for no file. CUPTI itself is opened
// at run time: without it, or without a driver, the raw file says why it holds no calls and kernels.
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "activities.h"
#include "calls.h"
#include "lane.h"
#include "library.h"
#include "raw_file.h"
#include "record.h"

namespace trace {
namespace {

/// Room for the records of some 19,000 kernels, so that a buffer rarely becomes full within a window of few steps.
constexpr size_t BUFFER_BYTES = 4 << 20;
/// Buffers that wait for CUPTI. It asks a thread of the program for one when this thread first launches something in a window.
constexpr size_t SPARE_BUFFERS = 3;
constexpr size_t MOST_WAITING = 1 << 14;
/// Of a call that waits to be written: whose it is. Its name is a number until then.
constexpr uint8_t RUNTIME = 1, DRIVER = 2;
constexpr auto FLUSH_INTERVAL = std::chrono::seconds(1);
/// Ids of names that NVTX gave; those that the writing thread finds count from 1.
constexpr uint32_t OF_NVTX = 0x80000000;

int64_t clock_ns(clockid_t id) {
  timespec now;
  clock_gettime(id, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

uint64_t CUPTIAPI timestamp() { return static_cast<uint64_t>(now_ns()); }

const CUpti_ActivityKind ON_GPUS[] = {
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMCPY2, CUPTI_ACTIVITY_KIND_MEMSET,
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
    const std::string unopened = file_.open(folder, header);
    if (!unopened.empty()) return unopened;
    waiting_.reserve(2 * MOST_WAITING);
    if (has_cupti_) problem = attach();
    if (!problem.empty()) queue_text(PROBLEM, problem);
    thread_ = std::thread([this] { write_until_closed(); });
    return "";
  }

  bool has_cupti() const { return has_cupti_; }

  /// Begins to record, or goes on.
  void resume() {
    if (recording_since_.exchange(now_ns()) != 0) return;
    if (has_cupti_) begin();
    // The time that it takes to begin is not part of the window.
    window_begin_.store(now_ns());
  }

  /// Ends recording until it is resumed. It waits for nothing, because steps that are not recorded may follow at once:
  /// the writing thread asks CUPTI for the records that it still holds, before the next window begins if there is time.
  /// A caller that needs all work of the window waits for the device first.
  void pause() {
    Record window;
    window.kind = WINDOW;
    window.end = now_ns();
    if (recording_since_.exchange(0) == 0) return;
    if (has_cupti_) {
      for (CUpti_ActivityKind kind : ON_GPUS) cupti_.cuptiActivityDisable(kind);
      cupti_.cuptiActivityDisable(CUPTI_ACTIVITY_KIND_MEMORY2);
      for (CUpti_CallbackDomain domain : {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_CB_DOMAIN_DRIVER_API}) {
        cupti_.cuptiEnableDomain(0, subscriber_, domain);
      }
      unflushed_.store(true);
    }
    window.start = window_begin_.load();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      waiting_.push_back(window);
    }
    wake_.notify_one();
  }

  /// Writes everything that is left.
  void close() {
    if (closed_.exchange(true)) return;
    pause();
    if (has_cupti_) cupti_.cuptiActivityFlushAll(1);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ended_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

  bool records() const { return recording_since_.load(std::memory_order_relaxed) != 0; }

  /// A buffer of zeros; null without memory.
  uint8_t *buffer() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!free_.empty()) {
        uint8_t *bytes = free_.back();
        free_.pop_back();
        return bytes;
      }
    }
    return new_buffer();
  }

  void filled(uint8_t *bytes, size_t valid) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      filled_.push_back({bytes, valid});
    }
    wake_.notify_one();
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

  /// A lane for a thread of the program that has none yet.
  Lane *lane() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!left_lanes_.empty()) {
      Lane *left = left_lanes_.back();
      left_lanes_.pop_back();
      return left;
    }
    lanes_.push_back(new Lane);
    return lanes_.back();
  }

  /// The thread of this lane has ended.
  void leave(Lane *lane) {
    std::lock_guard<std::mutex> lock(mutex_);
    left_lanes_.push_back(lane);
  }

  /// Hands over a record of a thread that may have a lane.
  void queue(const Record &record, Lane *lane) {
    const uint64_t held = lane == nullptr ? 0 : lane->put(record);
    if (held == 0) return queue(record);
    if (held != Lane::ROOM / 2) return;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      lanes_fill_ = true;
    }
    wake_.notify_one();
  }

  void queue(const Record &record) {
    bool many;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      waiting_.push_back(record);
      many = waiting_.size() >= MOST_WAITING;
    }
    if (many) wake_.notify_one();
  }

private:
  /// Makes CUPTI record.
  void begin() {
    std::string problem;
    for (CUpti_ActivityKind kind : ON_GPUS) enable(kind, problem);
    enable_allocations();
    const char *calls = getenv("MULTICARD_TRACE_CALLS");
    if (calls == nullptr || strcmp(calls, "none") != 0) {
      enable_calls(calls != nullptr && strcmp(calls, "driver") == 0, problem);
    } else if (!said_left_out_.exchange(true)) {
      // All of them.
      queue_text(LEFT_OUT, "*");
    }
    if (!problem.empty()) queue_text(PROBLEM, problem);
  }

  /// Takes CUPTI for this process. Why it cannot be had; empty if it can.
  std::string attach() {
    // Whoever subscribes first has CUPTI to himself: two who register buffers take each other's records.
    CUptiResult result = cupti_.cuptiSubscribe(&subscriber_, called, nullptr);
    std::string tried = "subscribing to CUPTI";
    if (result == CUPTI_SUCCESS) {
      cupti_.cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
      result = cupti_.cuptiActivityRegisterTimestampCallback(timestamp);
      tried = "giving CUPTI a clock";
    }
    if (result == CUPTI_SUCCESS) {
      // Otherwise CUPTI fills each buffer with zeros itself, in the thread of the program that is about to launch something.
      uint8_t zeros = 1;
      size_t size = sizeof zeros;
      cupti_.cuptiActivitySetAttribute(CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER, &size, &zeros);
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

  /// Memory that the program allocates and releases. All else is recorded without it too.
  void enable_allocations() {
    const CUptiResult result = cupti_.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMORY2);
    if (result == CUPTI_SUCCESS || said_no_allocations_.exchange(true)) return;
    queue_text(NOTE, "what CUDA allocates is not recorded: " + cupti_.words(result));
  }

  /// Makes CUPTI report calls by callbacks. Activity records of calls would slow down every call of the runtime, including calls that are
  /// not recorded; PyTorch makes thousands of these in a step of ten milliseconds. Callbacks for single calls cost the other calls
  /// nothing.
  void enable_calls(bool all_of_driver, std::string &problem) {
    CUptiResult result = cupti_.cuptiEnableDomain(1, subscriber_, CUPTI_CB_DOMAIN_RUNTIME_API);
    for (const auto &[id, name] : NOISE) cupti_.cuptiEnableCallback(0, subscriber_, CUPTI_CB_DOMAIN_RUNTIME_API, id);
    if (result == CUPTI_SUCCESS && all_of_driver) result = cupti_.cuptiEnableDomain(1, subscriber_, CUPTI_CB_DOMAIN_DRIVER_API);
    for (CUpti_CallbackId id : DRIVER_LAUNCHES) cupti_.cuptiEnableCallback(1, subscriber_, CUPTI_CB_DOMAIN_DRIVER_API, id);
    for (const Wait &wait : DRIVER_WAITS) cupti_.cuptiEnableCallback(1, subscriber_, CUPTI_CB_DOMAIN_DRIVER_API, wait.id);
    if (result != CUPTI_SUCCESS && problem.empty()) problem = "CUPTI tells of no calls: " + cupti_.words(result);
    if (said_left_out_.exchange(true)) return;
    std::string names;
    for (const auto &[id, name] : NOISE) {
      if (names.find(name) == std::string::npos) names += (names.empty() ? "" : ", ") + std::string(name);
    }
    queue_text(LEFT_OUT, names);
  }

  static void CUPTIAPI called(void *, CUpti_CallbackDomain, CUpti_CallbackId, const void *);
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
    if (has_cupti_) provide();
    auto flushed = std::chrono::steady_clock::now();
    // Swapped with the list that the program's threads fill; both have room, so that no thread waits while one grows.
    std::vector<Record> records;
    records.reserve(2 * MOST_WAITING);
    for (bool last = false; !last;) {
      std::vector<Buffer> buffers;
      std::vector<std::pair<Record, std::string>> texts;
      std::vector<Lane *> lanes;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait_for(lock, FLUSH_INTERVAL, [this] {
          const bool has_window = unflushed_.load() && !this->records();
          return ended_ || has_window || lanes_fill_ || !filled_.empty() || waiting_.size() >= MOST_WAITING;
        });
        lanes = lanes_;
        lanes_fill_ = false;
        buffers.swap(filled_);
        records.swap(waiting_);
        texts.swap(waiting_texts_);
        last = ended_;
      }
      for (const auto &[record, text] : texts) file_.put(record, text);
      for (const Record &record : records) put_named(record);
      records.clear();
      for (Lane *lane : lanes) lane->take([this](const Record &record) { put_named(record); });
      for (const Buffer &buffer : buffers) take(buffer);
      const bool is_due = std::chrono::steady_clock::now() - flushed >= FLUSH_INTERVAL;
      if (last) {
        Record end;
        end.kind = END;
        end.bytes = activities_.dropped;
        file_.put(end);
      } else if (has_cupti_ && asks(is_due)) {
        // Buffers that are not full, so that little is lost with a process that is killed.
        cupti_.cuptiActivityFlushAll(0);
      }
      if (last || is_due) {
        flushed = std::chrono::steady_clock::now();
        file_.flush();
      }
    }
  }

  /// Writes a record that a thread of the program made: a call still has a number for its name.
  void put_named(Record record) {
    if (record.kind == CALL) {
      record.name = activities_.call_name(record.a == RUNTIME, record.name);
      record.a = 0;
    }
    file_.put(record);
  }

  /// Whether to ask CUPTI now for the records that it holds: after each window, and once a second in a long one. Not within a short window,
  /// since its launches would wait for CUPTI's locks and for new buffers.
  bool asks(bool is_due) {
    const int64_t since = recording_since_.load();
    if (since == 0) return unflushed_.exchange(false);
    return is_due && now_ns() - since >= std::chrono::nanoseconds(FLUSH_INTERVAL).count();
  }

  static uint8_t *new_buffer() {
    void *bytes = aligned_alloc(4096, BUFFER_BYTES);
    // Written, so that the kernel provides its pages now.
    return static_cast<uint8_t *>(bytes == nullptr ? nullptr : memset(bytes, 0, BUFFER_BYTES));
  }

  /// Makes buffers until enough of them wait for CUPTI.
  void provide() {
    std::vector<uint8_t *> made;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      made.resize(SPARE_BUFFERS - std::min(SPARE_BUFFERS, free_.size()));
    }
    for (uint8_t *&bytes : made) bytes = new_buffer();
    std::lock_guard<std::mutex> lock(mutex_);
    for (uint8_t *bytes : made) {
      if (bytes != nullptr) free_.push_back(bytes);
    }
  }

  void take(const Buffer &buffer) {
    activities_.take(buffer.bytes, buffer.valid);
    // CUPTI may have written beyond its last valid record.
    memset(buffer.bytes, 0, BUFFER_BYTES);
    std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(buffer.bytes);
  }

  Cupti cupti_;
  bool has_cupti_ = false;
  std::atomic<bool> said_left_out_{false}, said_no_allocations_{false};
  CUpti_SubscriberHandle subscriber_ = nullptr;
  RawFile file_;
  Activities activities_{cupti_, file_};
  std::thread thread_;
  /// Since when it records; 0 while it does not.
  std::atomic<int64_t> recording_since_{0};
  /// When CUPTI was ready for the last recording.
  std::atomic<int64_t> window_begin_{0};
  /// Whether it recorded since CUPTI was last asked for the records that it holds.
  std::atomic<bool> unflushed_{false};
  std::atomic<bool> closed_{false};

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<uint8_t *> free_;
  std::vector<Buffer> filled_;
  std::vector<Record> waiting_;
  std::vector<std::pair<Record, std::string>> waiting_texts_;
  std::unordered_map<std::string, uint32_t> nvtx_names_;
  bool ended_ = false;
  /// All lanes, and those whose threads have ended; new threads get these first.
  std::vector<Lane *> lanes_, left_lanes_;
  /// Whether a lane is half full.
  bool lanes_fill_ = false;
};

std::atomic<Tracer *> tracer{nullptr};

/// A thread of the program that calls CUDA.
struct Caller {
  const uint32_t thread = this_thread();
  /// How many calls of the runtime it is in, of the recording that began at this time: the driver's calls within them are their own.
  int64_t since = 0, depth = 0;
  /// The tracer that its lane belongs to: a process that was forked has another one.
  Tracer *known = nullptr;
  Lane *lane = nullptr;
  bool has_ended = false;

  ~Caller() {
    has_ended = true;
    if (lane != nullptr && known == tracer.load()) known->leave(lane);
    lane = nullptr;
  }

  /// Its lane; null if it has ended, as its last calls are made by what is destroyed with it.
  Lane *lane_of(Tracer *now) {
    if (known != now) {
      known = now;
      lane = nullptr;
    }
    if (lane == nullptr && !has_ended) lane = now->lane();
    return lane;
  }
};

void CUPTIAPI Tracer::called(void *, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *about) {
  Tracer *of = tracer.load();
  // A child that was forked has none.
  if (of == nullptr) return;
  const int64_t since = of->recording_since_.load(std::memory_order_relaxed);
  static thread_local Caller caller;
  if (caller.since != since) {
    caller.since = since;
    caller.depth = 0;
  }
  const auto *call = static_cast<const CUpti_CallbackData *>(about);
  const bool runtime = domain == CUPTI_CB_DOMAIN_RUNTIME_API;
  if (call->callbackSite == CUPTI_API_ENTER) {
    *call->correlationData = !runtime && caller.depth > 0 ? 0 : static_cast<uint64_t>(now_ns());
    caller.depth += runtime;
    return;
  }
  caller.depth -= runtime && caller.depth > 0;
  Record record;
  record.start = static_cast<int64_t>(*call->correlationData);
  // It began before the recording, or within a call of the runtime. Most driver calls do: these need no look at the clock.
  if (since == 0 || record.start < since) return;
  record.end = now_ns();
  if (record.start > record.end) return;
  Lane *lane = caller.lane_of(of);
  record.kind = CALL;
  record.a = runtime ? RUNTIME : DRIVER;
  record.name = id;
  record.track = caller.thread;
  record.correlation = call->correlationId;
  of->queue(record, lane);
  const Wait *wait = runtime ? wait_of(RUNTIME_WAITS, id) : wait_of(DRIVER_WAITS, id);
  if (wait == nullptr) return;
  record.kind = SYNCHRONISATION;
  record.a = static_cast<uint8_t>(wait->type);
  record.name = record.track = 0;
  if (wait->of_stream) {
    // It is the first argument of these calls.
    const CUstream stream = *static_cast<const CUstream *>(call->functionParams);
    const bool of_thread = strstr(call->functionName, "_ptsz") != nullptr;
    if (of->cupti_.cuptiGetStreamIdEx(call->context, stream, of_thread, &record.track) != CUPTI_SUCCESS) record.track = 0;
  }
  of->queue(record, lane);
}

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

} // namespace

int64_t now_ns() { return clock_ns(CLOCK_MONOTONIC); }

uint32_t this_thread() {
  static thread_local uint32_t id = static_cast<uint32_t>(syscall(SYS_gettid));
  return id;
}

bool inject() {
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

bool records() {
  Tracer *of = tracer.load(std::memory_order_acquire);
  return of != nullptr && of->records();
}

uint32_t name_id(const char *text) {
  Tracer *of = tracer.load(std::memory_order_acquire);
  return of == nullptr ? 0 : of->nvtx_name(text);
}

void queue(const Record &record) {
  if (Tracer *of = tracer.load(std::memory_order_acquire)) of->queue(record);
}

} // namespace trace

using namespace trace;

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
  inject();
  return 1;
}
