// Matrix products by cuBLASLt. cuBLASLt chooses algorithms that suit many rows, but a step of fine-tuning has a few hundred, for which
// others are often faster. cuBLASLt's header is not in the wheels that the shim is built with, so this file declares what it uses (CUDA
// 13, cublasLt.h).
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
enum { LAYOUT_BATCH = 5, LAYOUT_APART = 6 };
enum { PREF_MAX_WORKSPACE = 1, PREF_REDUCTIONS = 3 };
// Partial sums are added in place or in fp32, never in the output's type.
constexpr uint32_t REDUCTIONS = 1 | 2;

extern "C" {
int cublasLtCreate(void**);
int cublasLtMatmulDescCreate(void**, int, int);
int cublasLtMatmulDescSetAttribute(void*, int, const void*, size_t);
int cublasLtMatrixLayoutCreate(void**, int, uint64_t, uint64_t, int64_t);
int cublasLtMatrixLayoutSetAttribute(void*, int, const void*, size_t);
int cublasLtMatmulPreferenceCreate(void**);
int cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, size_t);
int cublasLtMatmulPreferenceDestroy(void*);
int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int, Choice*, int*);
int cublasLtMatmul(void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*, void*, void*, void*,
                   const Algorithm*, void*, size_t, cudaStream_t);
}

constexpr size_t WORKSPACE = 64 << 20;
constexpr int CANDIDATES = 16;
// After a shape has occurred this often, all candidates are tried. Shapes of rows with varying lengths occur once or twice.
constexpr int SEEN_UNTIL_TRIED = 4;
constexpr int TRIES = 3;

void check(int status, const char* what) { TORCH_CHECK(status == 0, what, " of cuBLASLt failed with status ", status); }

// A product d = op(a) op(b) (+ c). If `a` is transposed, the rows of a and b are divided into `batch` pieces, and the sizes are those of
// one piece.
struct Shape {
  int64_t m, n, k;
  bool transposed_a, transposed_b;
  int64_t stride_a, stride_b, stride_d;   // between rows
  at::ScalarType kind, out;
  bool tf32, adds;
  int64_t batch;

  auto key() const { return std::tuple(m, n, k, transposed_a, transposed_b, stride_a, stride_b, stride_d, kind, out, tf32, adds, batch); }
};

struct Plan {
  void *operation = nullptr, *a = nullptr, *b = nullptr, *d = nullptr;
  std::vector<Choice> choices;
  int best = 0, seen = 0;
  bool tried = false;
};

// cudaDataType: CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF
int type_of(at::ScalarType kind) { return kind == at::kFloat ? 0 : kind == at::kHalf ? 2 : 14; }

struct Operands {
  const void *a, *b, *c;
  void* d;
};

struct Products {
  std::mutex lock;
  void* handle = nullptr;
  std::map<decltype(Shape().key()), Plan> plans;
  Tensor flush;

  Products() { check(cublasLtCreate(&handle), "starting"); }

  static void* layout(int type, int64_t rows, int64_t columns, int64_t stride, int64_t batch, int64_t apart) {
    void* descriptor = nullptr;
    check(cublasLtMatrixLayoutCreate(&descriptor, type, rows, columns, stride), "a layout");
    if (batch > 1) {
      int32_t count = static_cast<int32_t>(batch);
      check(cublasLtMatrixLayoutSetAttribute(descriptor, LAYOUT_BATCH, &count, sizeof count), "a layout");
      check(cublasLtMatrixLayoutSetAttribute(descriptor, LAYOUT_APART, &apart, sizeof apart), "a layout");
    }
    return descriptor;
  }

  Plan& plan(const Shape& s) {
    auto [at, is_new] = plans.try_emplace(s.key());
    auto& plan = at->second;
    if (!is_new) return plan;
    int type = type_of(s.kind);
    check(cublasLtMatmulDescCreate(&plan.operation, s.kind == at::kFloat && s.tf32 ? COMPUTE_32F_FAST_TF32 : COMPUTE_32F, 0), "a product");
    // cuBLAS stores matrices by columns, so the product is d^T [n, m] = op(b)^T op(a)^T.
    int32_t first = s.transposed_b ? 1 : 0, second = s.transposed_a ? 1 : 0;
    check(cublasLtMatmulDescSetAttribute(plan.operation, DESC_TRANSA, &first, sizeof first), "an attribute");
    check(cublasLtMatmulDescSetAttribute(plan.operation, DESC_TRANSB, &second, sizeof second), "an attribute");
    plan.a = s.transposed_b ? layout(type, s.k, s.n, s.stride_b, s.batch, s.n * s.stride_b)
                            : layout(type, s.n, s.k, s.stride_b, s.batch, s.k * s.stride_b);
    plan.b = s.transposed_a ? layout(type, s.m, s.k, s.stride_a, s.batch, s.k * s.stride_a)
                            : layout(type, s.k, s.m, s.stride_a, s.batch, s.m * s.stride_a);
    plan.d = layout(type_of(s.out), s.n, s.m, s.stride_d, s.batch, s.m * s.stride_d);
    void* preference = nullptr;
    check(cublasLtMatmulPreferenceCreate(&preference), "a preference");
    check(cublasLtMatmulPreferenceSetAttribute(preference, PREF_MAX_WORKSPACE, &WORKSPACE, sizeof WORKSPACE), "a preference");
    check(cublasLtMatmulPreferenceSetAttribute(preference, PREF_REDUCTIONS, &REDUCTIONS, sizeof REDUCTIONS), "a preference");
    plan.choices.resize(CANDIDATES);
    int count = 0;
    int status = cublasLtMatmulAlgoGetHeuristic(handle, plan.operation, plan.a, plan.b, plan.d, plan.d, preference, CANDIDATES,
                                                plan.choices.data(), &count);
    cublasLtMatmulPreferenceDestroy(preference);
    plan.choices.resize(status == 0 ? count : 0);
    return plan;
  }

  int run(const Plan& plan, int choice, const Operands& o, const Tensor& like) {
    const auto& chosen = plan.choices[choice];
    Tensor workspace;
    if (chosen.workspace > 0) workspace = at::empty({static_cast<int64_t>(chosen.workspace)}, like.options().dtype(at::kByte));
    float one = 1, more = o.c != nullptr ? 1 : 0;
    return cublasLtMatmul(handle, plan.operation, &one, o.b, plan.a, o.a, plan.b, &more, o.c != nullptr ? o.c : o.d, plan.d, o.d, plan.d,
                          &chosen.algorithm, workspace.defined() ? workspace.data_ptr() : nullptr, chosen.workspace,
                          c10::cuda::getCurrentCUDAStream());
  }

  // Times each candidate with weights that are not in the cache, as in a step.
  void attempt(Plan& plan, Operands o, const Tensor& like) {
    plan.tried = true;
    auto stream = c10::cuda::getCurrentCUDAStream();
    // The result is written to other memory, so that nothing is added in place twice.
    auto out = at::empty_like(like);
    o.d = out.data_ptr();
    if (!flush.defined()) flush = at::empty({64 << 20}, like.options().dtype(at::kByte));
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
        runs = run(plan, static_cast<int>(choice), o, like) == 0;
        C10_CUDA_CHECK(cudaEventRecord(to, stream));
        C10_CUDA_CHECK(cudaEventSynchronize(to));
        float took = 0;
        C10_CUDA_CHECK(cudaEventElapsedTime(&took, from, to));
        if (attempt == 0 || took < fastest) fastest = took;
      }
      // cuBLASLt's own choice remains unless another one is clearly faster.
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
  auto fits = [](const Tensor& t) {
    return t.dim() == 2 && t.stride(1) == 1 && t.stride(0) >= t.size(1) && reinterpret_cast<uintptr_t>(t.data_ptr()) % 16 == 0;
  };
  return (kind == at::kFloat || kind == at::kHalf || kind == at::kBFloat16) && weight.scalar_type() == kind && fits(x) && fits(weight);
}

namespace {

// Returns false if cuBLASLt has no algorithm for the product. `d` is all of the result's memory.
bool multiply(const Shape& shape, const Operands& operands, const Tensor& d) {
  static Products products;
  std::lock_guard guard(products.lock);
  auto& plan = products.plan(shape);
  if (plan.choices.empty()) return false;
  plan.seen++;
  if (!plan.tried && plan.seen >= SEEN_UNTIL_TRIED && !capturing() && !at::globalContext().deterministicAlgorithms()) {
    products.attempt(plan, operands, d);
  }
  check(products.run(plan, plan.best, operands, d), "a product");
  return true;
}

}  // namespace

Tensor multiply(const Tensor& x, const Tensor& weight, bool transposed) {
  auto m = x.size(0), k = x.size(1), n = weight.size(transposed ? 0 : 1), stride = transposed ? n : weight.stride(0);
  auto out = at::empty({m, stride}, x.options());
  Shape shape{m, n, k, false, transposed, x.stride(0), weight.stride(0), stride, x.scalar_type(), x.scalar_type(),
              at::globalContext().allowTF32CuBLAS(), false, 1};
  if (!multiply(shape, {x.data_ptr(), weight.data_ptr(), nullptr, out.data_ptr()}, out)) return at::mm(x, transposed ? weight.t() : weight);
  return stride == n ? out : out.narrow(1, 0, n);
}

void convolve_into(Tensor& d, const Tensor& x, const Tensor& weight, bool transposed, const Tensor& c) {
  auto m = x.size(0), k = x.size(1), n = weight.size(transposed ? 0 : 1);
  Shape shape{m, n, k, false, transposed, k, transposed ? k : n, n, x.scalar_type(), d.scalar_type(),
              at::globalContext().allowTF32CuDNN(), c.defined(), 1};
  TORCH_CHECK(multiply(shape, {x.data_ptr(), weight.data_ptr(), c.defined() ? c.data_ptr() : nullptr, d.data_ptr()}, d),
              "cuBLASLt has no algorithm for a product of [", shape.m, ", ", shape.k, "] and [", shape.k, ", ", shape.n, "] in ", x.scalar_type());
}

Tensor outer(const Tensor& a, const Tensor& b, int64_t batch) {
  auto d = at::empty({batch, a.size(1), b.size(1)}, a.options().dtype(at::kFloat));
  Shape shape{a.size(1), b.size(1), a.size(0) / batch, true, false, a.size(1), b.size(1), b.size(1), a.scalar_type(), at::kFloat,
              at::globalContext().allowTF32CuDNN(), false, batch};
  TORCH_CHECK(multiply(shape, {a.data_ptr(), b.data_ptr(), nullptr, d.data_ptr()}, d), "cuBLASLt has no algorithm for ", batch,
              " products of [", shape.m, ", ", shape.k, "] and [", shape.k, ", ", shape.n, "] in ", a.scalar_type());
  return d;
}
