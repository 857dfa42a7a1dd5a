// Kernels that NVRTC compiles for this process's GPU. NVRTC's library is installed beside libtorch's.
#pragma once
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

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
    // libtorch's wheel has its libraries in torch/lib, and NVIDIA's are in nvidia/cu13/lib beside it.
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(&c10::cuda::device_synchronize), &info) != 0) {
      auto folder = std::filesystem::path(info.dli_fname).parent_path() / "../../nvidia/cu13/lib";
      std::error_code absent;
      // NVRTC opens its second library by its name alone, so that library must be loaded already.
      for (const auto& file : std::filesystem::directory_iterator(folder, absent)) {
        auto name = file.path().filename().string();
        bool builtins = name.rfind("libnvrtc-builtins.so", 0) == 0;
        if (builtins) dlopen(file.path().c_str(), RTLD_NOW | RTLD_GLOBAL);
      }
      if (void* library = dlopen((folder / NAME).c_str(), RTLD_NOW | RTLD_GLOBAL)) return library;
    }
    if (void* library = dlopen(NAME, RTLD_NOW | RTLD_GLOBAL)) return library;
    TORCH_CHECK(false, "kernels = fused needs NVRTC, and ", NAME, " is neither beside libtorch nor in the library path: ", dlerror(),
                "; install nvidia-cuda-nvrtc or use kernels = plain");
  }

  static constexpr const char* NAME = "libnvrtc.so.13";
};

// A file of the folder `kernels`: its text, and the names of the kernels that it defines.
struct Source {
  const char* text;
  std::vector<const char*> kernels;
};
// The files by name; the build writes this list.
inline const std::map<std::string, Source> SOURCES{
#include "kernels.inc"
};

// The kernels of one program.
class Kernels {
 public:
  int processors;
  // The GPU's architecture, such as 90.
  int architecture;

  Kernels() {
    cudaDeviceProp properties;
    C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, c10::cuda::current_device()));
    processors = properties.multiProcessorCount;
    architecture = properties.major * 10 + properties.minor;
  }

  // Compiles these files for a type of activations.
  void compile(const std::vector<std::string>& files, at::ScalarType kind, const std::vector<std::string>& more_options) {
    static Nvrtc nvrtc;
    std::string arch = "--gpu-architecture=sm_" + std::to_string(architecture);
    auto type = kind == at::kFloat ? "-DTYPE=float" : kind == at::kHalf ? "-DTYPE=fp16" : "-DTYPE=bf16";
    std::vector<const char*> options{arch.c_str(), "--std=c++17", type}, names, texts;
    for (const auto& option : more_options) options.push_back(option.c_str());
    for (const auto& [name, source] : SOURCES) names.push_back(name.c_str()), texts.push_back(source.text);
    std::string all;
    for (const auto& file : files) all += "#include \"" + file + "\"\n";
    void* program = nullptr;
    auto created = nvrtc.create(&program, all.c_str(), "kernels.cu", static_cast<int>(names.size()), texts.data(), names.data());
    TORCH_CHECK(created == 0, "NVRTC cannot create a program");
    if (nvrtc.compile(program, static_cast<int>(options.size()), options.data()) != 0) {
      size_t size = 0;
      nvrtc.log_size(program, &size);
      std::string log(size, '\0');
      nvrtc.log(program, log.data());
      TORCH_CHECK(false, "compiling the fused kernels for ", arch, " failed: ", log);
    }
    size_t size = 0;
    TORCH_CHECK(nvrtc.cubin_size(program, &size) == 0 && size > 0, "NVRTC wrote no code for ", arch);
    std::vector<char> cubin(size);
    nvrtc.cubin(program, cubin.data());
    nvrtc.destroy(&program);
    cudaLibrary_t library;
    C10_CUDA_CHECK(cudaLibraryLoadData(&library, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0));
    for (const auto& file : files) {
      for (const char* name : SOURCES.at(file).kernels) C10_CUDA_CHECK(cudaLibraryGetKernel(&kernels[name], library, name));
    }
  }

  // How many blocks of a kernel run on the GPU at the same time.
  unsigned at_once(const char* name, int block) {
    unsigned& known = places[name];
    if (known == 0) {
      int each = 0;
      C10_CUDA_CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, reinterpret_cast<const void*>(kernels.at(name)), block, 0));
      known = std::max(each, 1) * processors;
    }
    return known;
  }

  template <class... Arguments>
  void run(const char* name, dim3 grid, dim3 block, Arguments... arguments) {
    void* pointers[] = {&arguments...};
    C10_CUDA_CHECK(cudaLaunchKernel(reinterpret_cast<const void*>(kernels.at(name)), grid, block, pointers, 0,
                                    c10::cuda::getCurrentCUDAStream()));
  }

 private:
  std::map<std::string, cudaKernel_t> kernels;
  std::map<std::string, unsigned> places;
};
