// The kernels of a Llama block on GPUs: one each for what takes libtorch several. Compiled by NVRTC, whose library lies beside
// libtorch's, for the GPU at hand, the type of activations and the rank of adapters.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "guard.h"
#include "llama_kernels.h"
#include "llama_source.h"
#include "product.h"

using at::Tensor;

namespace {

constexpr int BLOCK = 256;
// What adapters of a higher rank do with the weights' time is little: libtorch's products serve them.
constexpr int64_t HIGHEST_RANK = 16;

// ---------- compiling ----------

struct Nvrtc {
  int (*create)(void**, const char*, const char*, int, const char* const*, const char* const*);
  int (*compile)(void*, int, const char* const*);
  int (*log_size)(void*, size_t*);
  int (*log)(void*, char*);
  int (*cubin_size)(void*, size_t*);
  int (*cubin)(void*, char*);
  int (*destroy)(void**);

  Nvrtc() {
    void* library = open();
    auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
      TORCH_CHECK(function != nullptr, "NVRTC lacks ", name);
    };
    find(create, "nvrtcCreateProgram");
    find(compile, "nvrtcCompileProgram");
    find(log_size, "nvrtcGetProgramLogSize");
    find(log, "nvrtcGetProgramLog");
    find(cubin_size, "nvrtcGetCUBINSize");
    find(cubin, "nvrtcGetCUBIN");
    find(destroy, "nvrtcDestroyProgram");
  }

  static void* open() {
    // libtorch's wheel is torch/lib, NVIDIA's beside it nvidia/cu13/lib.
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(&c10::cuda::device_synchronize), &info) != 0) {
      auto folder = std::filesystem::path(info.dli_fname).parent_path() / "../../nvidia/cu13/lib";
      std::error_code absent;
      // NVRTC opens its other part by name alone.
      for (const auto& file : std::filesystem::directory_iterator(folder, absent)) {
        auto name = file.path().filename().string();
        bool builtins = name.rfind("libnvrtc-builtins.so", 0) == 0;
        if (builtins) dlopen(file.path().c_str(), RTLD_NOW | RTLD_GLOBAL);
      }
      if (void* library = dlopen((folder / NAME).c_str(), RTLD_NOW | RTLD_GLOBAL)) return library;
    }
    if (void* library = dlopen(NAME, RTLD_NOW | RTLD_GLOBAL)) return library;
    TORCH_CHECK(false, "kernels = fused needs NVRTC, and ", NAME, " is neither beside libtorch nor on the library path: ", dlerror(),
                "; install nvidia-cuda-nvrtc or use kernels = plain");
  }

  static constexpr const char* NAME = "libnvrtc.so.13";
};

struct Program {
  std::map<std::string, cudaKernel_t> kernels;

  Program(const char* type, int64_t rank) {
    static Nvrtc nvrtc;
    cudaDeviceProp properties;
    C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, c10::cuda::current_device()));
    std::string arch = "--gpu-architecture=sm_" + std::to_string(properties.major) + std::to_string(properties.minor);
    std::string t = std::string("-DTYPE=") + type, r = "-DRANK=" + std::to_string(rank);
    const char* options[] = {arch.c_str(), t.c_str(), r.c_str(), "--std=c++17"};
    void* program = nullptr;
    TORCH_CHECK(nvrtc.create(&program, LLAMA_SOURCE, "llama.cu", 0, nullptr, nullptr) == 0, "NVRTC cannot begin");
    if (nvrtc.compile(program, 4, options) != 0) {
      size_t size = 0;
      nvrtc.log_size(program, &size);
      std::string log(size, '\0');
      nvrtc.log(program, log.data());
      TORCH_CHECK(false, "compiling the fused kernels for ", arch, " failed: ", log);
    }
    size_t size = 0;
    TORCH_CHECK(nvrtc.cubin_size(program, &size) == 0 && size > 0, "NVRTC made nothing for ", arch);
    std::vector<char> cubin(size);
    nvrtc.cubin(program, cubin.data());
    nvrtc.destroy(&program);
    cudaLibrary_t library;
    C10_CUDA_CHECK(cudaLibraryLoadData(&library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
    for (const char* name : {"rms_norm", "rms_norm_backward", "rotate", "swiglu", "swiglu_backward", "cross_entropy", "down", "back",
                             "add_up", "add_up_swiglu", "add_back", "grad_a", "grad_b"}) {
      C10_CUDA_CHECK(cudaLibraryGetKernel(&kernels[name], library, name));
    }
  }

  template <class... Arguments>
  void run(const char* name, dim3 grid, dim3 block, Arguments... arguments) {
    run_on(c10::cuda::getCurrentCUDAStream(), name, grid, block, arguments...);
  }

  template <class... Arguments>
  void run_on(cudaStream_t stream, const char* name, dim3 grid, dim3 block, Arguments... arguments) {
    void* pointers[] = {&arguments...};
    C10_CUDA_CHECK(cudaLaunchKernel(reinterpret_cast<const void*>(kernels.at(name)), grid, block, pointers, 0, stream));
  }
};

// As `Parts` of the source, for any type.
struct Parts {
  const void* b[4];
  int start[4];
  int width[4];
  int count;
};

struct Outs {
  void* b[4];
};

unsigned blocks(int64_t count, int64_t of) { return static_cast<unsigned>((count + of - 1) / of); }

// ---------- kernels ----------

struct CudaKernels : PlainKernels {
  std::mutex building;
  std::map<std::pair<at::ScalarType, int64_t>, std::unique_ptr<Program>> programs;

  Program& program(at::ScalarType kind, int64_t rank = 8) {
    std::lock_guard lock(building);
    auto& made = programs[{kind, rank}];
    if (!made) {
      const char* type = kind == at::kFloat ? "float" : kind == at::kHalf ? "fp16" : "bf16";
      made = std::make_unique<Program>(type, rank);
    }
    return *made;
  }

  // What is not needed at once runs on a stream of its own, beside the products.
  c10::cuda::CUDAStream side = c10::cuda::getStreamFromPool();
  cudaEvent_t forked = event(), joined = event();

  static cudaEvent_t event() {
    cudaEvent_t event;
    C10_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
  }

  void fork() override {
    C10_CUDA_CHECK(cudaEventRecord(forked, c10::cuda::getCurrentCUDAStream()));
    C10_CUDA_CHECK(cudaStreamWaitEvent(side, forked, 0));
  }

  void join() override {
    C10_CUDA_CHECK(cudaEventRecord(joined, side));
    C10_CUDA_CHECK(cudaStreamWaitEvent(c10::cuda::getCurrentCUDAStream(), joined, 0));
  }

  // Values in 16 bytes.
  static int64_t pack(const Tensor& x) { return 16 / x.element_size(); }

  // Rows that can be read 16 bytes at a time.
  static bool fits(const Tensor& x) {
    auto kind = x.scalar_type();
    return (kind == at::kFloat || kind == at::kHalf || kind == at::kBFloat16) && x.dim() == 2 && x.stride(1) == 1 &&
           x.size(1) % pack(x) == 0 && x.stride(0) % pack(x) == 0 && reinterpret_cast<uintptr_t>(x.data_ptr()) % 16 == 0;
  }
  static bool fits_whole(const Tensor& x) { return fits(x) && x.is_contiguous(); }

  static bool fits(const Linear& linear) {
    if (linear.b.size() > 4 || linear.rank() > HIGHEST_RANK || !fits_whole(linear.a)) return false;
    for (size_t p = 0; p < linear.b.size(); p++) {
      if (!fits_whole(linear.b[p]) || linear.b[p].size(0) % pack(linear.a) != 0 || linear.start[p] % pack(linear.a) != 0) return false;
    }
    return true;
  }

  static Parts parts_of(const Linear& linear) {
    Parts parts{};
    for (size_t p = 0; p < linear.b.size(); p++) {
      parts.b[p] = linear.b[p].data_ptr();
      parts.start[p] = static_cast<int>(linear.start[p]);
      parts.width[p] = static_cast<int>(linear.b[p].size(0));
    }
    parts.count = static_cast<int>(linear.b.size());
    return parts;
  }

  static int64_t widest(const Linear& linear) {
    int64_t widest = 0;
    for (const auto& b : linear.b) widest = std::max(widest, b.size(0));
    return widest;
  }

  Tensor product(const Tensor& x, const Tensor& weight, bool transposed) override {
    return can_multiply(x, weight) ? multiply(x, weight, transposed) : PlainKernels::product(x, weight, transposed);
  }

  void rms_norm(const Tensor& x, const Tensor& weight, double epsilon, Tensor& y, Tensor& inverse) override {
    if (!fits_whole(x)) return PlainKernels::rms_norm(x, weight, epsilon, y, inverse);
    y = at::empty_like(x);
    inverse = at::empty({x.size(0)}, x.options().dtype(at::kFloat));
    program(x.scalar_type())
        .run("rms_norm", static_cast<unsigned>(x.size(0)), BLOCK, x.data_ptr(), weight.data_ptr(), y.data_ptr(),
             inverse.data_ptr(), static_cast<int>(x.size(1)), static_cast<float>(epsilon));
  }

  Tensor rms_norm_backward(const Tensor& grad, const Tensor& x, const Tensor& weight, const Tensor& inverse,
                           const Tensor& more) override {
    if (!fits_whole(x) || !fits_whole(grad) || (more.defined() && !fits_whole(more))) {
      return PlainKernels::rms_norm_backward(grad, x, weight, inverse, more);
    }
    auto dx = at::empty_like(x);
    void* added = more.defined() ? more.data_ptr() : nullptr;
    program(x.scalar_type())
        .run("rms_norm_backward", static_cast<unsigned>(x.size(0)), BLOCK, grad.data_ptr(), x.data_ptr(), weight.data_ptr(),
             inverse.data_ptr(), added, dx.data_ptr(), static_cast<int>(x.size(1)));
    return dx;
  }

  void rotate(Tensor& rows, int64_t heads, int64_t width, const Tensor& cos, const Tensor& sin, const Tensor& positions,
              bool inverse) override {
    if (!fits(rows)) return PlainKernels::rotate(rows, heads, width, cos, sin, positions, inverse);
    program(rows.scalar_type())
        .run("rotate", static_cast<unsigned>(rows.size(0)), BLOCK, rows.data_ptr(), cos.data_ptr(), sin.data_ptr(),
             positions.data_ptr(), static_cast<int>(heads), static_cast<int>(width / 2), rows.stride(0), inverse ? -1.0f : 1.0f);
  }

  Tensor swiglu(const Tensor& gate_up) override {
    auto width = gate_up.size(1) / 2;
    if (!fits_whole(gate_up) || width % pack(gate_up) != 0) return PlainKernels::swiglu(gate_up);
    auto y = at::empty({gate_up.size(0), width}, gate_up.options());
    program(y.scalar_type())
        .run("swiglu", blocks(y.numel(), BLOCK * pack(y)), BLOCK, gate_up.data_ptr(), y.data_ptr(), static_cast<int>(width), y.numel());
    return y;
  }

  Tensor add_up_swiglu(Tensor& gate_up, const Tensor& u, const Linear& linear) override {
    auto width = gate_up.size(1) / 2;
    bool both = linear.b.size() == 2 && linear.start[0] == 0 && linear.start[1] == width && linear.b[0].size(0) == width;
    if (!both || !fits_whole(gate_up) || !fits(linear) || !fits_whole(u)) return PlainKernels::add_up_swiglu(gate_up, u, linear);
    auto y = at::empty({gate_up.size(0), width}, gate_up.options());
    program(y.scalar_type(), linear.rank())
        .run("add_up_swiglu", dim3(blocks(y.size(0), 4), blocks(width, BLOCK * pack(y))), BLOCK, gate_up.data_ptr(), u.data_ptr(),
             y.data_ptr(), parts_of(linear), static_cast<int>(y.size(0)), static_cast<int>(width));
    return y;
  }

  Tensor swiglu_backward(Tensor& grad, const Tensor& gate_up, const Tensor& du, const Tensor& a, Tensor& output) override {
    auto width = gate_up.size(1) / 2;
    bool adapted = du.defined();
    if (!fits_whole(gate_up) || !fits_whole(grad) || (adapted && (!fits_whole(a) || a.size(0) > 4 * HIGHEST_RANK))) {
      return PlainKernels::swiglu_backward(grad, gate_up, du, a, output);
    }
    auto d = at::empty_like(gate_up);
    output = at::empty_like(grad);
    void* none = nullptr;
    program(grad.scalar_type())
        .run("swiglu_backward", dim3(blocks(grad.size(0), 4), blocks(width, BLOCK * pack(grad))), BLOCK, grad.data_ptr(),
             gate_up.data_ptr(), adapted ? du.data_ptr() : none, adapted ? a.data_ptr() : none, d.data_ptr(), output.data_ptr(),
             static_cast<int>(width), adapted ? static_cast<int>(a.size(0)) : 0, static_cast<int>(grad.size(0)));
    return d;
  }

  Tensor cross_entropy(Tensor& logits, const Tensor& labels) override {
    if (!fits_whole(logits)) return PlainKernels::cross_entropy(logits, labels);
    auto losses = at::empty({logits.size(0)}, logits.options().dtype(at::kFloat));
    program(logits.scalar_type())
        .run("cross_entropy", static_cast<unsigned>(logits.size(0)), 1024, logits.data_ptr(), labels.data_ptr(), losses.data_ptr(),
             static_cast<int>(logits.size(1)));
    return losses;
  }

  Tensor down(const Tensor& x, const Tensor& a, double scale) override {
    // Groups of 8 rows, whatever the rank.
    if (!fits(x) || !fits_whole(a) || a.size(0) % 8 != 0 || a.size(0) > 4 * HIGHEST_RANK) return PlainKernels::down(x, a, scale);
    auto u = at::empty({x.size(0), a.size(0)}, x.options());
    program(x.scalar_type())
        .run_on(side, "down", dim3(blocks(x.size(0), 2), static_cast<unsigned>(a.size(0) / 8)), BLOCK, x.data_ptr(), a.data_ptr(), u.data_ptr(),
             static_cast<int>(x.size(1)), static_cast<int>(a.size(0)), static_cast<int>(x.size(0)), x.stride(0),
             static_cast<float>(scale));
    return u;
  }

  void add_up(Tensor& y, const Tensor& u, const Linear& linear, const Tensor& more) override {
    // With `more`, the parts must cover all columns.
    bool whole = linear.b.size() == 1 && linear.b[0].size(0) == y.size(1);
    if (!fits(y) || !fits(linear) || !fits_whole(u) || (more.defined() && (!whole || !fits(more) || more.stride(0) != y.stride(0)))) {
      return PlainKernels::add_up(y, u, linear, more);
    }
    dim3 grid(blocks(y.size(0), 4), static_cast<unsigned>(linear.b.size()), blocks(widest(linear), BLOCK * pack(y)));
    program(y.scalar_type(), linear.rank())
        .run("add_up", grid, BLOCK, y.data_ptr(), u.data_ptr(), more.defined() ? more.data_ptr() : static_cast<void*>(nullptr),
             parts_of(linear), static_cast<int>(y.size(0)), y.stride(0));
  }

  Tensor back(const Tensor& grad, const Linear& linear) override {
    if (!fits(grad) || !fits(linear)) return PlainKernels::back(grad, linear);
    auto du = at::empty({grad.size(0), linear.a.size(0)}, grad.options());
    dim3 grid(blocks(grad.size(0), 2), static_cast<unsigned>(linear.b.size()));
    program(grad.scalar_type(), linear.rank())
        .run_on(side, "back", grid, BLOCK, grad.data_ptr(), parts_of(linear), du.data_ptr(), static_cast<int>(grad.size(0)), grad.stride(0),
             static_cast<float>(linear.scale));
    return du;
  }

  void add_back(Tensor& dx, const Tensor& du, const Tensor& a) override {
    if (!fits_whole(dx) || !fits_whole(a) || a.size(0) > 4 * HIGHEST_RANK) return PlainKernels::add_back(dx, du, a);
    program(dx.scalar_type())
        .run("add_back", dim3(blocks(dx.size(0), 4), blocks(dx.size(1), BLOCK * pack(dx))), BLOCK, dx.data_ptr(), du.data_ptr(),
             a.data_ptr(), static_cast<int>(dx.size(1)), static_cast<int>(a.size(0)), static_cast<int>(dx.size(0)));
  }

  Tensor grad_a(const Tensor& du, const Tensor& x) override {
    if (!fits(x) || !fits_whole(du) || du.size(1) % 8 != 0 || du.size(1) > 4 * HIGHEST_RANK) return PlainKernels::grad_a(du, x);
    auto da = at::empty({du.size(1), x.size(1)}, x.options());
    program(x.scalar_type())
        .run_on(side, "grad_a", dim3(blocks(x.size(1), 64), static_cast<unsigned>(du.size(1) / 8)), dim3(32, 16), x.data_ptr(), du.data_ptr(),
             da.data_ptr(), static_cast<int>(x.size(1)), static_cast<int>(du.size(1)), static_cast<int>(x.size(0)), x.stride(0));
    return da;
  }

  std::vector<Tensor> grad_b(const Tensor& grad, const Tensor& u, const Linear& linear) override {
    if (!fits(grad) || !fits(linear) || !fits_whole(u)) return PlainKernels::grad_b(grad, u, linear);
    std::vector<Tensor> grads;
    Outs outs{};
    for (const auto& b : linear.b) {
      grads.push_back(at::empty_like(b));
      outs.b[grads.size() - 1] = grads.back().data_ptr();
    }
    dim3 grid(blocks(widest(linear), 64), static_cast<unsigned>(linear.b.size()));
    program(grad.scalar_type(), linear.rank())
        .run_on(side, "grad_b", grid, dim3(32, 16), grad.data_ptr(), u.data_ptr(), parts_of(linear), outs, static_cast<int>(grad.size(0)),
             grad.stride(0));
    return grads;
  }
};

}  // namespace

// The kernels of this process, whose first use of a type and rank compiles them.
SHIM_API LlamaKernels* mcc_llama_kernels() {
  GUARD(nullptr, {
    static CudaKernels kernels;
    kernels.program(at::kFloat);
    return &kernels;
  })
}
