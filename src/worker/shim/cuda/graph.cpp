// CUDA graphs, using libtorch's class, which gives a graph its memory pool and its random numbers.
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <memory>
#include <vector>

#include "guard.h"

using at::cuda::CUDAGraph;

SHIM_API int mcc_use_side_stream() {
  GUARD(-1, {
    c10::cuda::setCurrentCUDAStream(c10::cuda::getStreamFromPool());
    return 0;
  })
}

// Waits for all work of the device, and frees cached memory, so that the graph's pool can use it. If `beside` is given, the graph uses
// the pool of that graph.
SHIM_API CUDAGraph* mcc_graph_begin(CUDAGraph* beside) {
  GUARD(nullptr, {
    c10::cuda::device_synchronize();
    c10::cuda::CUDACachingAllocator::emptyCache();
    auto graph = std::make_unique<CUDAGraph>(/*keep_graph=*/true);
    // Other threads go on during the capture: the loader's threads wait for their copies, and NCCL's watchdog queries events.
    graph->capture_begin(beside != nullptr ? beside->pool() : at::cuda::MempoolId_t{0, 0}, cudaStreamCaptureModeThreadLocal);
    return graph.release();
  })
}

SHIM_API int mcc_graph_end(CUDAGraph* graph, int64_t* kernels, int64_t* nodes) {
  GUARD(-1, {
    graph->capture_end();
    graph->instantiate();
    size_t count = 0;
    C10_CUDA_CHECK(cudaGraphGetNodes(graph->raw_cuda_graph(), nullptr, &count));
    std::vector<cudaGraphNode_t> all(count);
    C10_CUDA_CHECK(cudaGraphGetNodes(graph->raw_cuda_graph(), all.data(), &count));
    *kernels = 0;
    for (auto node : all) {
      cudaGraphNodeType type;
      C10_CUDA_CHECK(cudaGraphNodeGetType(node, &type));
      if (type == cudaGraphNodeTypeKernel) (*kernels)++;
    }
    *nodes = static_cast<int64_t>(count);
    return 0;
  })
}

SHIM_API int mcc_graph_replay(CUDAGraph* graph) {
  GUARD(-1, {
    graph->replay();
    return 0;
  })
}

SHIM_API void mcc_graph_free(CUDAGraph* graph) {
  GUARD(, { delete graph; })
}
