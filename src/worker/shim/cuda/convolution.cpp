// Convolutions by cuDNN whose plans are stored between processes. libtorch tries cuDNN's engines again in each process, and compiles
// those that are compiled at run time, which takes tens of seconds for steps of milliseconds. cuDNN can write a plan as text, including
// compiled kernels, and create it from that text within milliseconds. This file replaces libtorch's own calls of cuDNN, below autograd
// and autocast; everything else about a convolution remains libtorch's. cuDNN's header is not in the wheels that the shim is built with,
// so this file declares what it uses (cuDNN 9, cudnn_graph.h).
#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/native/ConvUtils.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "guard.h"

using at::Tensor;

struct cudnnContext;

extern "C" {
size_t cudnnGetVersion();
const char* cudnnGetErrorString(int);
int cudnnBackendCreateDescriptor(int, void**);
int cudnnBackendDestroyDescriptor(void*);
int cudnnBackendFinalize(void*);
int cudnnBackendSetAttribute(void*, int, int, int64_t, const void*);
int cudnnBackendGetAttribute(void*, int, int, int64_t, int64_t*, void*);
int cudnnBackendExecute(cudnnContext*, void*, void*);
}

namespace at::native {
/// The calling thread's handle, which uses the current stream.
cudnnContext* getCudnnHandle();
} // namespace at::native

namespace {

enum DescriptorType { CONVOLUTION = 1, ENGINE, CONFIG, HEURISTICS, PLAN, FORWARD = 10, TO_WEIGHT, TO_INPUT, GRAPH = 15, PACK, TENSOR };
enum ValueType {
  HANDLE = 0,
  DATA_TYPE = 1,
  INT64 = 3,
  FLOAT = 4,
  DOUBLE = 5,
  POINTER = 6,
  CONVOLUTION_MODE = 7,
  HEURISTICS_MODE = 8,
  NUMERICAL_NOTE = 11,
  DESCRIPTOR = 15,
  CHAR = 24,
};
enum ConvolutionAttribute { COMPUTE_TYPE = 100, MODE, DILATIONS, STRIDES, PADDINGS_AFTER, PADDINGS_BEFORE, DIMENSIONS };
enum TensorAttribute { ALIGNMENT = 900, TYPE, SIZES, TENSOR_STRIDES, ID = 906 };
enum HeuristicsAttribute { ASKED = 200, GRAPH_ASKED, RESULTS };
enum PlanAttribute { PLAN_HANDLE = 400, PLAN_CONFIG, WORKSPACE, TEXT = 405 };
enum GraphAttribute { GRAPH_HANDLE = 800, OPERATIONS };
enum PackAttribute { IDS = 1000, POINTERS, PACK_WORKSPACE = 1003 };
enum { CONFIG_ENGINE = 300, ENGINE_NOTES = 1303 };
/// The attributes of an operation, counted from its first attribute.
enum OperationAttribute { ALPHA, BETA, OF_CONVOLUTION, WEIGHT, INPUT, OUTPUT };
enum { INSTANT = 0, FALLBACK = 2 };
enum { CROSS_CORRELATION = 1 };
enum Note { TENSOR_CORE = 0, DOWN_CONVERTED_INPUTS = 1, NOTES = 10 };

/// How many executions are timed together, so that the launch of one does not count.
constexpr int IN_A_ROW = 8;
/// How often this number of executions is timed; the shortest time counts.
constexpr int TIMES = 5;
/// How much longer a single execution may take than one of several in a row, because of its launch.
constexpr float LAUNCH_US = 50;
/// In bytes; no engine requires a greater alignment.
constexpr int64_t ALIGNED = 16;

void check(int status, const char* what) { TORCH_CHECK(status == 0, what, " failed in cuDNN: ", cudnnGetErrorString(status)); }

class Descriptor {
public:
  explicit Descriptor(DescriptorType type) { check(cudnnBackendCreateDescriptor(type, &raw_), "making a descriptor"); }
  Descriptor(Descriptor&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  ~Descriptor() {
    if (raw_ != nullptr) cudnnBackendDestroyDescriptor(raw_);
  }

  template <class T> Descriptor& set_all(int attribute, ValueType type, at::ArrayRef<T> values) {
    check(cudnnBackendSetAttribute(raw_, attribute, type, static_cast<int64_t>(values.size()), values.data()), "describing a convolution");
    return *this;
  }
  template <class T> Descriptor& set(int attribute, ValueType type, T value) {
    return set_all(attribute, type, at::ArrayRef<T>(value));
  }
  Descriptor& set(int attribute, const Descriptor& other) { return set(attribute, DESCRIPTOR, other.raw_); }

  /// Reads as many values as have room, and returns how many there are.
  template <class T> int64_t get(int attribute, ValueType type, T* values, int64_t room) const {
    int64_t count = 0;
    check(cudnnBackendGetAttribute(raw_, attribute, type, room, &count, values), "asking about a plan");
    return count;
  }

  /// Whether cuDNN accepts the description.
  bool finalize() { return cudnnBackendFinalize(raw_) == 0; }
  Descriptor&& finalized() {
    check(cudnnBackendFinalize(raw_), "describing a convolution");
    return std::move(*this);
  }
  void* raw() const { return raw_; }

private:
  void* raw_ = nullptr;
};

enum Pass : int64_t { PASS_FORWARD, PASS_TO_INPUT, PASS_TO_WEIGHT };

/// Everything that a plan depends on, except the GPU's kind and the libraries. Compared byte by byte.
struct Problem {
  int64_t pass, device, type, channels_last, tf32, alignment, groups;
  std::array<int64_t, 4> input, weight, output;
  std::array<int64_t, 2> stride, padding, dilation;

  std::string_view bytes() const { return {reinterpret_cast<const char*>(this), sizeof *this}; }
  bool operator==(const Problem& other) const { return bytes() == other.bytes(); }

  /// A name that is the same on every machine with this kind of GPU.
  std::string text() const {
    const cudaDeviceProp* gpu = at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(device));
    std::ostringstream text;
    text << gpu->name << ", compute capability " << gpu->major << '.' << gpu->minor << ", " << gpu->multiProcessorCount
         << " multiprocessors; cuDNN " << cudnnGetVersion() << "; "
         << (pass == PASS_FORWARD ? "forward" : pass == PASS_TO_INPUT ? "gradient of input" : "gradient of weight") << ", "
         << c10::toString(static_cast<at::ScalarType>(type)) << (channels_last != 0 ? " nhwc" : " nchw") << (tf32 != 0 ? " tf32" : "")
         << ", input " << at::IntArrayRef(input) << ", weight " << at::IntArrayRef(weight) << ", output " << at::IntArrayRef(output)
         << ", stride " << at::IntArrayRef(stride) << ", padding " << at::IntArrayRef(padding) << ", dilation " << at::IntArrayRef(dilation)
         << ", groups " << groups << ", aligned to " << alignment;
    return text.str();
  }
};

struct Hash {
  size_t operator()(const Problem& problem) const { return std::hash<std::string_view>()(problem.bytes()); }
};

struct Tensors {
  const Tensor &input, &weight, &output;
};

/// Whether there was no memory for the workspace of one of this thread's plans.
thread_local bool ran_out_of_memory = false;

struct Plan {
  Descriptor descriptor;
  int64_t workspace_bytes;

  explicit Plan(Descriptor&& description) : descriptor(std::move(description)), workspace_bytes(0) {
    descriptor.get(WORKSPACE, INT64, &workspace_bytes, 1);
  }

  /// Runs the plan `times` times. Returns false if cuDNN cannot run it, or if there is no memory for its workspace.
  bool run(const Tensors& tensors, int times = 1) const {
    Tensor workspace;
    try {
      workspace = at::empty({workspace_bytes}, tensors.input.options().dtype(at::kByte));
    } catch (const c10::OutOfMemoryError&) {
      ran_out_of_memory = true;
      return false;
    }
    const std::array<void*, 3> pointers = {tensors.input.data_ptr(), tensors.weight.data_ptr(), tensors.output.data_ptr()};
    const std::array<int64_t, 3> ids = {INPUT, WEIGHT, OUTPUT};
    Descriptor pack(PACK);
    pack.set_all<void*>(POINTERS, POINTER, pointers);
    pack.set_all<int64_t>(IDS, INT64, ids);
    pack.set(PACK_WORKSPACE, POINTER, workspace.data_ptr());
    if (!pack.finalize()) return false;
    cudnnContext* handle = at::native::getCudnnHandle();
    for (int time = 0; time < times; time++) {
      if (cudnnBackendExecute(handle, descriptor.raw(), pack.raw()) != 0) return false;
    }
    return true;
  }
};

/// cuDNN's number for a type.
int64_t data_type(at::ScalarType type) {
  switch (type) {
  case at::kFloat: return 0;
  case at::kDouble: return 1;
  case at::kHalf: return 2;
  case at::kBFloat16: return 9;
  default: TORCH_CHECK(false, "cuDNN's plans are not kept for convolutions of ", type);
  }
}

Descriptor tensor(const Problem& problem, OperationAttribute id, const std::array<int64_t, 4>& sizes) {
  // The layout is given explicitly, because a tensor with one channel or pixel has strides that fit both layouts.
  const auto [images, channels, height, width] = sizes;
  const int64_t values = channels * height * width;
  const std::array<int64_t, 4> strides = problem.channels_last != 0 ? std::array<int64_t, 4>{values, 1, width * channels, channels}
                                                              : std::array<int64_t, 4>{values, height * width, width, 1};
  Descriptor tensor(TENSOR);
  tensor.set(TYPE, DATA_TYPE, static_cast<int>(data_type(static_cast<at::ScalarType>(problem.type))));
  tensor.set_all<int64_t>(SIZES, INT64, sizes).set_all<int64_t>(TENSOR_STRIDES, INT64, strides);
  return tensor.set<int64_t>(ID, INT64, id).set(ALIGNMENT, INT64, problem.alignment).finalized();
}

Descriptor graph_of(const Problem& problem) {
  const bool fp64 = problem.type == static_cast<int64_t>(at::kDouble);
  Descriptor convolution(CONVOLUTION);
  convolution.set(COMPUTE_TYPE, DATA_TYPE, static_cast<int>(data_type(fp64 ? at::kDouble : at::kFloat)));
  convolution.set<int>(MODE, CONVOLUTION_MODE, CROSS_CORRELATION).set<int64_t>(DIMENSIONS, INT64, 2);
  convolution.set_all<int64_t>(STRIDES, INT64, problem.stride).set_all<int64_t>(DILATIONS, INT64, problem.dilation);
  convolution.set_all<int64_t>(PADDINGS_BEFORE, INT64, problem.padding).set_all<int64_t>(PADDINGS_AFTER, INT64, problem.padding);
  const Descriptor whole = convolution.finalized();

  const auto [type, first] = problem.pass == PASS_FORWARD    ? std::pair(FORWARD, 700)
                             : problem.pass == PASS_TO_INPUT ? std::pair(TO_INPUT, 706)
                                                        : std::pair(TO_WEIGHT, 712);
  const Descriptor input = tensor(problem, INPUT, problem.input), weight = tensor(problem, WEIGHT, problem.weight), output = tensor(problem, OUTPUT, problem.output);
  Descriptor operation(type);
  operation.set(first + OF_CONVOLUTION, whole);
  operation.set(first + INPUT, input).set(first + WEIGHT, weight).set(first + OUTPUT, output);
  if (fp64) {
    operation.set(first + ALPHA, DOUBLE, 1.0).set(first + BETA, DOUBLE, 0.0);
  } else {
    operation.set(first + ALPHA, FLOAT, 1.0f).set(first + BETA, FLOAT, 0.0f);
  }
  const Descriptor done = operation.finalized();
  Descriptor graph(GRAPH);
  return graph.set(GRAPH_HANDLE, HANDLE, at::native::getCudnnHandle()).set(OPERATIONS, done).finalized();
}

/// Configurations of engines that cuDNN proposes, the most promising first: the same ones that libtorch would try.
std::vector<Descriptor> proposed(const Problem& problem) {
  const Descriptor graph = graph_of(problem);
  std::vector<Descriptor> all;
  for (int mode : {INSTANT, FALLBACK}) {
    Descriptor heuristics(HEURISTICS);
    heuristics.set(GRAPH_ASKED, graph).set(ASKED, HEURISTICS_MODE, mode);
    if (!heuristics.finalize()) continue;
    std::vector<Descriptor> configs;
    std::vector<void*> raw;
    for (int64_t count = heuristics.get<void*>(RESULTS, DESCRIPTOR, nullptr, 0); count > 0; count--) {
      configs.emplace_back(CONFIG);
      raw.push_back(configs.back().raw());
    }
    const int64_t read = heuristics.get(RESULTS, DESCRIPTOR, raw.data(), static_cast<int64_t>(raw.size()));
    for (int64_t place = 0; place < read; place++) all.push_back(std::move(configs[place]));
  }
  return all;
}

/// Whether an engine's precision is sufficient, by libtorch's rule.
bool precise(const Descriptor& config, const Problem& problem) {
  const Descriptor engine(ENGINE);
  void* raw = engine.raw();
  config.get(CONFIG_ENGINE, DESCRIPTOR, &raw, 1);
  std::array<int, NOTES> notes;
  const int64_t count = engine.get(ENGINE_NOTES, NUMERICAL_NOTE, notes.data(), NOTES);
  const bool strict = problem.type == static_cast<int64_t>(at::kFloat) && problem.tf32 == 0;
  const auto refused = [&](int note) { return note == DOWN_CONVERTED_INPUTS || (strict && note == TENSOR_CORE); };
  return std::none_of(notes.begin(), notes.begin() + count, refused);
}

Descriptor unfinished_plan() {
  Descriptor plan(PLAN);
  plan.set(PLAN_HANDLE, HANDLE, at::native::getCudnnHandle());
  return plan;
}

/// How long the GPU takes for one execution, in microseconds; none if the plan does not run. If an engine is clearly slower than the best
/// so far, only one execution is timed.
std::optional<float> duration_us(const Plan& plan, const Tensors& tensors, float best_us) {
  const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
  cudaEvent_t begin, end;
  C10_CUDA_CHECK(cudaEventCreate(&begin));
  C10_CUDA_CHECK(cudaEventCreate(&end));
  const auto mean_us = [&](int times) -> std::optional<float> {
    C10_CUDA_CHECK(cudaEventRecord(begin, stream));
    if (!plan.run(tensors, times)) return std::nullopt;
    C10_CUDA_CHECK(cudaEventRecord(end, stream));
    C10_CUDA_CHECK(cudaEventSynchronize(end));
    float ms = 0;
    C10_CUDA_CHECK(cudaEventElapsedTime(&ms, begin, end));
    return 1000 * ms / static_cast<float>(times);
  };
  // The first execution loads the kernel. The time of the second includes its launch.
  std::optional<float> least = plan.run(tensors) ? mean_us(1) : std::nullopt;
  if (least && *least < 2 * best_us + LAUNCH_US) {
    least = mean_us(IN_A_ROW);
    for (int time = 1; least && time < TIMES; time++) {
      const auto again = mean_us(IN_A_ROW);
      least = again ? std::optional(std::min(*least, *again)) : std::nullopt;
    }
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return least;
}

// ---------- plans that processes store ----------

using Take = void (*)(void* into, const char* bytes, size_t length);
/// Passes the plan that is stored under a name to `take`, if there is one.
void (*find_kept)(const char* name, Take take, void* into) = nullptr;
void (*keep)(const char* name, const char* bytes, size_t length) = nullptr;
/// Whether new plans are chosen by trials; otherwise cuDNN's first proposal that runs is used.
bool trials = true;
std::atomic<int64_t> replayed{0}, new_plans{0}, finding_us{0};

std::optional<Plan> kept_plan(const std::string& name) {
  std::string text;
  find_kept(name.c_str(), [](void* into, const char* bytes, size_t length) { static_cast<std::string*>(into)->assign(bytes, length); }, &text);
  if (text.empty()) return std::nullopt;
  Descriptor plan = unfinished_plan();
  const bool taken = cudnnBackendSetAttribute(plan.raw(), TEXT, CHAR, static_cast<int64_t>(text.size()), text.data()) == 0;
  if (!taken || !plan.finalize()) return std::nullopt;
  return Plan(std::move(plan));
}

/// The fastest of the plans that libtorch would try, or, if not `timed`, the first one that runs.
Plan new_plan(const Problem& problem, const Tensors& tensors, bool timed) {
  const auto begin = std::chrono::steady_clock::now();
  std::optional<Plan> best;
  float best_us = std::numeric_limits<float>::max();
  int64_t left = at::globalContext().benchmarkLimitCuDNN();
  for (const Descriptor& config : proposed(problem)) {
    if (!precise(config, problem)) continue;
    Descriptor candidate = unfinished_plan();
    candidate.set(PLAN_CONFIG, config);
    if (!candidate.finalize()) continue;
    Plan plan(std::move(candidate));
    if (!timed) {
      if (!plan.run(tensors)) continue;
      best = std::move(plan);
      break;
    }
    if (const auto us = duration_us(plan, tensors, best_us); us && *us < best_us) {
      best_us = *us;
      best = std::move(plan);
    }
    // A limit of 0 means no limit.
    if (--left == 0) break;
  }
  TORCH_CHECK_WITH(OutOfMemoryError, best.has_value() || !ran_out_of_memory, "CUDA out of memory: no engine of cuDNN has room for ", problem.text());
  TORCH_CHECK(best.has_value(), "cuDNN has no engine that runs this convolution: ", problem.text());
  // Frees the workspaces of the slower plans.
  if (timed) c10::cuda::CUDACachingAllocator::emptyCache();
  new_plans++;
  if (timed) finding_us += std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin).count();
  return std::move(*best);
}

void keep_plan(const std::string& name, const Plan& plan) {
  int64_t length = 0;
  if (cudnnBackendGetAttribute(plan.descriptor.raw(), TEXT, CHAR, 0, &length, nullptr) != 0 || length <= 0) return;
  std::string text(static_cast<size_t>(length), 0);
  if (cudnnBackendGetAttribute(plan.descriptor.raw(), TEXT, CHAR, length, &length, text.data()) != 0) return;
  keep(name.c_str(), text.data(), text.size());
}

/// The plans of the calling thread; libtorch does not share plans between threads, either. They are never freed, because CUDA may already
/// be closed when a thread ends.
std::unordered_map<Problem, Plan, Hash>& plans() {
  static thread_local auto* known = new std::unordered_map<Problem, Plan, Hash>;
  return *known;
}

const Plan& plan_of(const Problem& problem, const Tensors& tensors) {
  const auto known = plans().find(problem);
  if (known != plans().end()) return known->second;
  const std::string name = problem.text() + (trials ? "" : ", first proposal");
  // During the capture of a graph, nothing can be timed or tried.
  const bool captured = c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None;
  std::optional<Plan> plan = kept_plan(name);
  ran_out_of_memory = false;
  // With another driver, or with less free memory, a stored plan may not run.
  if (plan && !captured && !plan->run(tensors)) plan.reset();
  if (plan) {
    replayed++;
  } else {
    plan = new_plan(problem, tensors, trials && !captured);
    // A plan is stored only if there was memory for the workspaces of all candidates.
    if (!captured && !ran_out_of_memory) {
      keep_plan(name, *plan);
      // Uses the stored form from now on, as later processes will.
      if (auto same = kept_plan(name)) plan = std::move(same);
    }
  }
  return plans().emplace(problem, std::move(*plan)).first->second;
}

// ---------- in place of libtorch's calls ----------

struct Shape {
  at::IntArrayRef padding, stride, dilation;
  int64_t groups;
  bool tf32;
};

void convolve(Pass pass, const Tensors& tensors, const Shape& shape, at::MemoryFormat format) {
  TORCH_CHECK(tensors.input.dim() == 4 && tensors.weight.dim() == 4, "cuDNN's plans are kept for convolutions of images, [N, C, H, W]");
  const auto sizes = [](const Tensor& tensor) { return std::array{tensor.size(0), tensor.size(1), tensor.size(2), tensor.size(3)}; };
  const auto two = [](at::IntArrayRef values) { return std::array{values[0], values[values.size() - 1]}; };
  int64_t alignment = ALIGNED;
  for (const Tensor* tensor : {&tensors.input, &tensors.weight, &tensors.output}) {
    while (reinterpret_cast<uintptr_t>(tensor->data_ptr()) % alignment != 0) alignment /= 2;
  }
  const Problem problem = {
      pass,
      tensors.input.get_device(),
      static_cast<int64_t>(tensors.input.scalar_type()),
      format == at::MemoryFormat::ChannelsLast,
      // TF32 applies only to fp32.
      shape.tf32 && tensors.input.scalar_type() == at::kFloat,
      alignment,
      shape.groups,
      sizes(tensors.input),
      sizes(tensors.weight),
      sizes(tensors.output),
      two(shape.stride),
      two(shape.padding),
      two(shape.dilation),
  };
  if (plan_of(problem, tensors).run(tensors)) return;
  // The plan ran before, so there is less free memory now.
  plans().erase(problem);
  ran_out_of_memory = false;
  const Plan& other = plans().emplace(problem, new_plan(problem, tensors, false)).first->second;
  TORCH_CHECK(other.run(tensors), "cuDNN's plan failed: ", problem.text());
}

Tensor forward(const Tensor& input, const Tensor& weight, at::IntArrayRef padding, at::IntArrayRef stride, at::IntArrayRef dilation,
               int64_t groups, bool, bool, bool tf32) {
  const c10::cuda::CUDAGuard guard(input.device());
  const at::MemoryFormat format = at::native::cudnn_conv_suggest_memory_format(input, weight);
  const auto sizes = at::native::conv_output_size(input.sizes(), weight.sizes(), padding, stride, dilation);
  const Tensor output = at::empty(sizes, input.options().memory_format(format));
  if (output.numel() > 0) {
    convolve(PASS_FORWARD, {input.contiguous(format), weight.contiguous(format), output}, {padding, stride, dilation, groups, tf32}, format);
  }
  return output;
}

std::tuple<Tensor, Tensor> backward(const Tensor& input, const Tensor& gradient, const Tensor& weight, at::IntArrayRef padding,
                                    at::IntArrayRef stride, at::IntArrayRef dilation, int64_t groups, bool, bool, bool tf32,
                                    std::array<bool, 2> wanted) {
  const c10::cuda::CUDAGuard guard(input.device());
  const at::MemoryFormat format = at::native::cudnn_conv_suggest_memory_format(input, weight);
  const Shape shape = {padding, stride, dilation, groups, tf32};
  const Tensor output = gradient.contiguous(format);
  const bool empty = input.numel() == 0;
  Tensor of_input, of_weight;
  if (wanted[0]) {
    of_input = at::empty(input.sizes(), input.options().memory_format(format));
    if (!empty) convolve(PASS_TO_INPUT, {of_input, weight.contiguous(format), output}, shape, format);
  }
  if (wanted[1]) {
    of_weight = at::empty(weight.sizes(), weight.options().memory_format(format));
    empty ? void(of_weight.zero_()) : convolve(PASS_TO_WEIGHT, {input.contiguous(format), of_weight, output}, shape, format);
  }
  return {of_input, of_weight};
}

/// Suppresses libtorch's warning about a replaced operation.
class Silent : public c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

} // namespace

/// From now on, cuDNN's plans come from `find`, and new plans are passed to `keep`. Any thread may call both. With `tried`, a new plan is
/// the fastest of those that cuDNN proposes, otherwise its first proposal that runs.
SHIM_API int mcc_keep_plans(decltype(find_kept) find, decltype(keep) keep_new, int tried) {
  GUARD(-1, {
    const bool first = find_kept == nullptr;
    find_kept = find;
    keep = keep_new;
    trials = tried != 0;
    if (!first) return 0;
    Silent silent;
    c10::WarningUtils::WarningHandlerGuard guard(&silent);
    static auto* library = new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
    library->impl("cudnn_convolution", TORCH_FN(forward));
    at::native::cudnn_convolution_backward_stub.set_cuda_dispatch_ptr(backward);
    return 0;
  })
}

/// How many plans were created from stored ones, how many were new, and how long the search for new ones took, summed over threads.
SHIM_API void mcc_kept_plans(int64_t* from_kept, int64_t* made_new, double* finding_s) {
  *from_kept = replayed;
  *made_new = new_plans;
  *finding_s = static_cast<double>(finding_us) / 1e6;
}
