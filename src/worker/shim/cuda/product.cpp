// Matrix products by cuBLASLt. Its own choice of an algorithm is made for many rows; a step of fine-tuning has a few hundred, where
// others are often faster. cuBLASLt's header is not in the wheels that the shim is built with: what is used of it is declared here
// (CUDA 13, cublasLt.h).
#include "product.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <map>
#include <mutex>
#include <tuple>
#include <vector>

using at::Tensor;

namespace {

struct Algorithm {
  uint64_t data[8];
};
struct Choice {
  Algorithm algorithm;
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
};

enum { COMPUTE_32F = 68, COMPUTE_32F_FAST_TF32 = 77 };
enum { DESC_TRANSA = 3, DESC_TRANSB = 4 };
enum { PREF_MAX_WORKSPACE = 1, PREF_REDUCTIONS = 3 };
// Partial sums are added in place or in fp32, never in the output's own type.
constexpr uint32_t REDUCTIONS = 1 | 2;

extern "C" {
int cublasLtCreate(void**);
int cublasLtMatmulDescCreate(void**, int, int);
int cublasLtMatmulDescSetAttribute(void*, int, const void*, size_t);
int cublasLtMatrixLayoutCreate(void**, int, uint64_t, uint64_t, int64_t);
int cublasLtMatmulPreferenceCreate(void**);
int cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, size_t);
int cublasLtMatmulPreferenceDestroy(void*);
int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int, Choice*, int*);
int cublasLtMatmul(void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*, void*, void*, void*,
                   const Algorithm*, void*, size_t, cudaStream_t);
}

constexpr size_t WORKSPACE = 64 << 20;
constexpr int CANDIDATES = 16;
// A shape that comes this often is worth trying all candidates; rows of any length come once or twice.
constexpr int SEEN_UNTIL_TRIED = 4;
constexpr int TRIES = 3;

void check(int status, const char* what) { TORCH_CHECK(status == 0, what, " of cuBLASLt failed with status ", status); }

struct Plan {
  void *operation = nullptr, *a = nullptr, *b = nullptr, *d = nullptr;
  std::vector<Choice> choices;
  int best = 0, seen = 0;
  bool tried = false;
};

// Rows, columns, inner length, the second operand's form, type, TF32, the stride of rows.
using Key = std::tuple<int64_t, int64_t, int64_t, bool, at::ScalarType, bool, int64_t>;

struct Products {
  std::mutex lock;
  void* handle = nullptr;
  std::map<Key, Plan> plans;
  Tensor flush;

  Products() { check(cublasLtCreate(&handle), "starting"); }

  Plan& plan(const Key& key) {
    auto [at, is_new] = plans.try_emplace(key);
    auto& plan = at->second;
    if (!is_new) return plan;
    auto [m, n, k, transposed, kind, tf32, stride] = key;
    // cudaDataType: CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF
    int type = kind == at::kFloat ? 0 : kind == at::kHalf ? 2 : 14;
    check(cublasLtMatmulDescCreate(&plan.operation, kind == at::kFloat && tf32 ? COMPUTE_32F_FAST_TF32 : COMPUTE_32F, 0), "a product");
    // cuBLAS counts columns first: the product is out^T [n, m] = op(W) x^T.
    int32_t trans = transposed ? 1 : 0, plain = 0;
    check(cublasLtMatmulDescSetAttribute(plan.operation, DESC_TRANSA, &trans, sizeof trans), "an attribute");
    check(cublasLtMatmulDescSetAttribute(plan.operation, DESC_TRANSB, &plain, sizeof plain), "an attribute");
    check(cublasLtMatrixLayoutCreate(&plan.a, type, transposed ? k : n, transposed ? n : k, transposed ? k : n), "a layout");
    check(cublasLtMatrixLayoutCreate(&plan.b, type, k, m, stride), "a layout");
    check(cublasLtMatrixLayoutCreate(&plan.d, type, n, m, n), "a layout");
    void* preference = nullptr;
    check(cublasLtMatmulPreferenceCreate(&preference), "a preference");
    check(cublasLtMatmulPreferenceSetAttribute(preference, PREF_MAX_WORKSPACE, &WORKSPACE, sizeof WORKSPACE), "a preference");
    check(cublasLtMatmulPreferenceSetAttribute(preference, PREF_REDUCTIONS, &REDUCTIONS, sizeof REDUCTIONS), "a preference");
    plan.choices.resize(CANDIDATES);
    int found = 0;
    int status = cublasLtMatmulAlgoGetHeuristic(handle, plan.operation, plan.a, plan.b, plan.d, plan.d, preference, CANDIDATES,
                                                plan.choices.data(), &found);
    cublasLtMatmulPreferenceDestroy(preference);
    plan.choices.resize(status == 0 ? found : 0);
    return plan;
  }

  int run(const Plan& plan, int choice, const Tensor& x, const Tensor& weight, Tensor& out) {
    const auto& chosen = plan.choices[choice];
    Tensor workspace;
    if (chosen.workspace > 0) workspace = at::empty({static_cast<int64_t>(chosen.workspace)}, x.options().dtype(at::kByte));
    float one = 1, zero = 0;
    return cublasLtMatmul(handle, plan.operation, &one, weight.data_ptr(), plan.a, x.data_ptr(), plan.b, &zero, out.data_ptr(), plan.d,
                          out.data_ptr(), plan.d, &chosen.algorithm, workspace.defined() ? workspace.data_ptr() : nullptr,
                          chosen.workspace, c10::cuda::getCurrentCUDAStream());
  }

  // Times each candidate with weights that are not in the cache, as a step finds them.
  void attempt(Plan& plan, const Tensor& x, const Tensor& weight, Tensor& out) {
    plan.tried = true;
    auto stream = c10::cuda::getCurrentCUDAStream();
    if (!flush.defined()) flush = at::empty({64 << 20}, x.options().dtype(at::kByte));
    cudaEvent_t from, to;
    C10_CUDA_CHECK(cudaEventCreate(&from));
    C10_CUDA_CHECK(cudaEventCreate(&to));
    float best = 0;
    for (size_t choice = 0; choice < plan.choices.size(); choice++) {
      float fastest = 0;
      bool runs = true;
      for (int attempt = 0; attempt < TRIES && runs; attempt++) {
        C10_CUDA_CHECK(cudaMemsetAsync(flush.data_ptr(), 0, flush.numel(), stream));
        C10_CUDA_CHECK(cudaEventRecord(from, stream));
        runs = run(plan, static_cast<int>(choice), x, weight, out) == 0;
        C10_CUDA_CHECK(cudaEventRecord(to, stream));
        C10_CUDA_CHECK(cudaEventSynchronize(to));
        float took = 0;
        C10_CUDA_CHECK(cudaEventElapsedTime(&took, from, to));
        if (attempt == 0 || took < fastest) fastest = took;
      }
      // cuBLASLt's own choice stands unless another one is clearly faster.
      if (runs && (choice == 0 || fastest < 0.98f * best)) {
        best = fastest;
        plan.best = static_cast<int>(choice);
      }
    }
    C10_CUDA_CHECK(cudaEventDestroy(from));
    C10_CUDA_CHECK(cudaEventDestroy(to));
    flush.reset();
  }
};

bool capturing() {
  cudaStreamCaptureStatus status;
  C10_CUDA_CHECK(cudaStreamIsCapturing(c10::cuda::getCurrentCUDAStream(), &status));
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace

bool can_multiply(const Tensor& x, const Tensor& weight) {
  auto kind = x.scalar_type();
  auto aligned = [](const Tensor& t) { return reinterpret_cast<uintptr_t>(t.data_ptr()) % 16 == 0; };
  return (kind == at::kFloat || kind == at::kHalf || kind == at::kBFloat16) && weight.scalar_type() == kind && x.dim() == 2 &&
         x.stride(1) == 1 && x.stride(0) >= x.size(1) && weight.is_contiguous() && aligned(x) && aligned(weight);
}

Tensor multiply(const Tensor& x, const Tensor& weight, bool transposed) {
  static Products products;
  std::lock_guard guard(products.lock);
  auto m = x.size(0), k = x.size(1), n = weight.size(transposed ? 0 : 1);
  bool tf32 = at::globalContext().allowTF32CuBLAS();
  auto& plan = products.plan({m, n, k, transposed, x.scalar_type(), tf32, x.stride(0)});
  if (plan.choices.empty()) return at::mm(x, transposed ? weight.t() : weight);
  auto out = at::empty({m, n}, x.options());
  plan.seen++;
  if (!plan.tried && plan.seen >= SEEN_UNTIL_TRIED && !capturing() && !at::globalContext().deterministicAlgorithms()) {
    products.attempt(plan, x, weight, out);
  }
  check(products.run(plan, plan.best, x, weight, out), "a product");
  return out;
}
