// Copies between the GPUs of one machine, by their copy engines.
#include <ATen/ATen.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <cstring>

#include "peer_copies.h"

namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

struct CudaCopies : PeerCopies {
  c10::cuda::CUDAStream stream = c10::cuda::getStreamFromPool(/*isHighPriority=*/false);

  std::string share(const at::Tensor& tensor) override {
    auto shared = allocator::shareIpcHandle(tensor.data_ptr());
    int64_t offset = shared.offset;
    return std::string(reinterpret_cast<const char*>(&offset), sizeof(offset)) + shared.handle;
  }

  at::Tensor open(const std::string& shared, const at::Tensor& like) override {
    int64_t offset = 0;
    std::memcpy(&offset, shared.data(), sizeof(offset));
    auto memory = allocator::getIpcDevPtr(shared.substr(sizeof(offset)));
    // The mapping lives as long as the tensor. Its device is this process's GPU, because the process sees no other one.
    auto keep = [memory](void*) {};
    return at::from_blob(static_cast<char*>(memory.get()) + offset, like.sizes(), like.strides(), keep, like.options(), like.device());
  }

  std::function<void()> copy(const std::vector<std::pair<at::Tensor, at::Tensor>>& each) override {
    at::cuda::CUDAEvent before;
    before.record();
    before.block(stream);
    for (const auto& [to, from] : each) {
      C10_CUDA_CHECK(cudaMemcpyAsync(to.data_ptr(), from.data_ptr(), to.nbytes(), cudaMemcpyDeviceToDevice, stream));
    }
    auto done = std::make_shared<at::cuda::CUDAEvent>();
    done->record(stream);
    return [done] { done->block(c10::cuda::getCurrentCUDAStream()); };
  }
};

}  // namespace

std::unique_ptr<PeerCopies> cuda_copies() { return std::make_unique<CudaCopies>(); }
