// Functions that tch lacks and that need only libtorch_cpu: memory formats, autograd's hooks, autocast, global flags.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <torch/version.h>

#include <cstdlib>
#include <memory>

#include "guard.h"

SHIM_API const char* mc_last_error() { return shim_error.c_str(); }

SHIM_API const char* mc_torch_version() { return TORCH_VERSION; }

// The digest of the sources from which both parts of the shim were built.
SHIM_API const char* mc_stamp() { return SHIM_STAMP; }

// ---------- memory format ----------

// Gives a parameter storage of the given device, type and format; the tensor object stays the same. Only images and weights of
// convolutions (4 dimensions) have a channels-last form.
SHIM_API int mc_place(at::Tensor* tensor, int cuda_index, int scalar_type, int channels_last) {
  GUARD(-1, {
    at::NoGradGuard no_grad;
    auto device = cuda_index >= 0 ? at::Device(at::kCUDA, cuda_index) : at::Device(at::kCPU);
    auto placed = tensor->detach().to(device, static_cast<at::ScalarType>(scalar_type));
    auto format = channels_last && placed.dim() == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
    // Gradients use the format's own strides for dimensions of size 1, too; `contiguous` would not change these.
    auto laid_out = at::empty(placed.sizes(), placed.options().memory_format(format));
    tensor->set_data(laid_out.copy_(placed));
    return 0;
  })
}

SHIM_API int mc_is_channels_last(at::Tensor* tensor) {
  GUARD(-1, { return tensor->is_contiguous(at::MemoryFormat::ChannelsLast) ? 1 : 0; })
}

// Page-locked host memory, which the GPU reads and writes directly.
SHIM_API at::Tensor* mc_pinned_empty(const int64_t* shape, size_t dimensions, int scalar_type) {
  GUARD(nullptr, {
    auto options = at::TensorOptions().dtype(static_cast<at::ScalarType>(scalar_type)).pinned_memory(true);
    return new at::Tensor(at::empty(at::IntArrayRef(shape, dimensions), options));
  })
}

SHIM_API int mc_is_pinned(at::Tensor* tensor) {
  GUARD(-1, { return tensor->is_pinned() ? 1 : 0; })
}

// A tensor over memory that `owner` owns. `release` is called when libtorch no longer needs the memory.
SHIM_API at::Tensor* mc_adopt(void* data, const int64_t* shape, size_t dimensions, int scalar_type, int cuda_index,
                              void (*release)(void*), void* owner) {
  GUARD(nullptr, {
    auto device = cuda_index >= 0 ? at::Device(at::kCUDA, cuda_index) : at::Device(at::kCPU);
    auto options = at::TensorOptions().dtype(static_cast<at::ScalarType>(scalar_type)).device(device);
    return new at::Tensor(at::for_blob(data, at::IntArrayRef(shape, dimensions))
                              .context(owner, release)
                              .target_device(device)
                              .options(options)
                              .make_tensor());
  })
}

SHIM_API int mc_copy(at::Tensor* to, at::Tensor* from, int non_blocking) {
  GUARD(-1, {
    at::NoGradGuard no_grad;
    to->copy_(*from, non_blocking != 0);
    return 0;
  })
}

// ---------- autograd ----------

// `call(owner, text, room)` is called when the tensor's gradient is complete, before the backward pass continues to the operation that
// made the tensor. It returns 0, or writes its error's text. `release` is called when the graph is freed.
SHIM_API int mc_on_gradient(at::Tensor* tensor, int (*call)(void*, char*, size_t), void (*release)(void*), void* owner) {
  GUARD(-1, {
    std::shared_ptr<void> kept(owner, release);
    if (!tensor->requires_grad()) return 0;
    tensor->register_hook([kept, call](const at::Tensor&) {
      char text[512] = "";
      TORCH_CHECK(call(kept.get(), text, sizeof text) == 0, text);
    });
    return 0;
  })
}

// ---------- autocast ----------

SHIM_API int mc_autocast_enter(int cuda, int scalar_type) {
  GUARD(-1, {
    auto device = cuda ? at::kCUDA : at::kCPU;
    at::autocast::set_autocast_enabled(device, true);
    at::autocast::set_autocast_dtype(device, static_cast<at::ScalarType>(scalar_type));
    at::autocast::increment_nesting();
    return 0;
  })
}

SHIM_API int mc_autocast_leave(int cuda) {
  GUARD(-1, {
    // Cast weights are cached during one pass only, because the optimizer changes the weights between passes.
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(cuda ? at::kCUDA : at::kCPU, false);
    return 0;
  })
}

// ---------- global flags ----------

SHIM_API int mc_set_flags(int benchmark, int tf32_conv, int tf32_matmul, int deterministic) {
  GUARD(-1, {
    auto& context = at::globalContext();
    context.setBenchmarkCuDNN(benchmark != 0);
    context.setAllowTF32CuDNN(tf32_conv != 0);
    context.setAllowTF32CuBLAS(tf32_matmul != 0);
    context.setDeterministicCuDNN(deterministic != 0);
    context.setDeterministicAlgorithms(deterministic != 0, false);
    // Filling uninitialised memory would cost a kernel for each tensor, and start threads inside the loader's threads.
    context.setDeterministicFillUninitializedMemory(false);
    // cuBLAS is deterministic only with a fixed workspace. It reads this variable when it is first used.
    if (deterministic) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 1);
    return 0;
  })
}

// The flags in effect: 1 benchmark, 2 tf32 in convolutions, 4 tf32 in matrix products, 8 deterministic.
SHIM_API int mc_flags() {
  GUARD(-1, {
    auto& context = at::globalContext();
    return (context.benchmarkCuDNN() ? 1 : 0) | (context.allowTF32CuDNN() ? 2 : 0) |
           (context.allowTF32CuBLAS() ? 4 : 0) |
           (context.deterministicCuDNN() && context.deterministicAlgorithms() ? 8 : 0);
  })
}

SHIM_API int mc_set_threads(int compute, int interop) {
  GUARD(-1, {
    at::set_num_threads(compute);
    at::set_num_interop_threads(interop);
    return 0;
  })
}
