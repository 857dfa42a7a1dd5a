// MobileNetV2's layers up to the pooled features, as operations of autograd: one for the stem with the first block, one for each other
// block and one for the tail. Activations are stored as rows of channels. Pointwise convolutions are matrix products by cuBLASLt. A
// convolution's raw output is stored, and the kernels that read it normalise it (normalisation.cuh). The sums over rows that normalise
// a pointwise layer's output are computed from its input, which has few channels, forward and backward; so its wide output is written
// once and read once in each direction.
#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <vector>

#include "guard.h"
#include "kernels/mobilenet.h"
#include "nvrtc.h"
#include "product.h"
#include "step.h"

using at::Tensor;

namespace {

// Threads per block for most kernels.
constexpr int BLOCK = 256;
// For a pass over rows, the number of blocks per block that runs on the GPU at the same time. It is low, because each block ends with a
// sum.
constexpr int TURNS = 2;

struct Program : Kernels {
  explicit Program(at::ScalarType kind) {
    std::vector<std::string> options;
    // For architectures before Hopper, NVRTC 13.0.88 crashes (SIGSEGV) on a source with both `pool` and `mask`, unless it optimises less.
    if (architecture < 90) options.push_back("--Ofast-compile=min");
    compile({"mobilenet.cu", "depthwise.cu"}, kind, options);
  }
};

Program& program(at::ScalarType kind) {
  static std::mutex lock;
  static std::map<std::pair<at::ScalarType, int>, Program> programs;
  std::lock_guard guard(lock);
  auto at = std::pair(kind, static_cast<int>(c10::cuda::current_device()));
  auto entry = programs.find(at);
  if (entry == programs.end()) entry = programs.try_emplace(at, kind).first;
  return entry->second;
}

unsigned blocks(int64_t count, int64_t each) { return static_cast<unsigned>((count + each - 1) / each); }
int pack(const Tensor& x) { return static_cast<int>(16 / x.element_size()); }

// The size of feature maps.
struct Size {
  int64_t images, height, width;
  int64_t rows() const { return images * height * width; }
  Size over(int64_t stride) const { return {images, (height - 1) / stride + 1, (width - 1) / stride + 1}; }
};

// A convolution with its batch normalisation.
struct Layer {
  Tensor weight, gamma, beta, running_mean, running_variance;
  Tensor matrix;                     // a pointwise layer's weight in the type of activations, [outputs, inputs]
  int64_t channels = 0;
  float *sums = nullptr, *grads = nullptr;   // sums of this pass, [2, channels]
  double count = 0;

  Norm norm() const {
    return {sums, gamma.data_ptr<float>(), beta.data_ptr<float>(), running_mean.data_ptr<float>(), running_variance.data_ptr<float>(),
            static_cast<float>(count), static_cast<int>(channels)};
  }
};

// What the operations of one pass share.
struct Flow {
  at::ScalarType kind;
  Tensor arena;                      // sums, initially zero
  float* next = nullptr;
  // A constant for each channel, which must be added to the gradient of a block's output. It is left out because the normalisation before
  // it cancels constants.
  float* constant = nullptr;

  float* take(int64_t count) { return std::exchange(next, next + count); }
};

Tensor rows_of(const Flow& flow, const Tensor& like, int64_t rows, int64_t columns) {
  return at::empty({rows, columns}, like.options().dtype(flow.kind));
}

dim3 over_rows(Program& kernels, const char* name, const Tensor& like, int64_t channels, int64_t rows) {
  unsigned across = blocks(channels, LANES * pack(like));
  unsigned wanted = std::max(1u, TURNS * kernels.at_once(name, BLOCK) / across);
  return {across, std::min(blocks(rows, ROWS), wanted)};
}

// How the kernels of depthwise convolutions divide their work: one round of blocks, and each block takes columns until none are left.
struct Division {
  Maps maps;
  dim3 grid;
};

Division divide(Program& kernels, const char* name, Size in, int64_t channels, int64_t stride) {
  auto out = in.over(stride);
  Maps m{};
  m.images = in.images, m.height = in.height, m.width = in.width, m.out_height = out.height, m.out_width = out.width, m.channels = channels;
  // Bands are as equal as possible, because a band with few rows reads as many neighbours as one with many.
  m.high = blocks(out.height, blocks(out.height, stride == 1 ? MOST_HIGH<1> : MOST_HIGH<2>));
  m.bands = blocks(out.height, m.high);
  m.blocks = m.bands * blocks(out.images * out.width, STRIPS);
  unsigned across = blocks(channels, 2 * PAIRS);
  return {m, dim3(across, std::min<unsigned>(m.blocks, std::max(1u, kernels.at_once(name, BLOCK) / across)))};
}

// The number of equal parts into which a product over many rows is divided, so that all multiprocessors have work.
int64_t parts(const Program& kernels, int64_t rows, int64_t m, int64_t n) {
  int64_t wanted = std::min<int64_t>(2 * kernels.processors / (blocks(m, 128) * blocks(n, 128)), rows / 512);
  for (int64_t batch = std::max<int64_t>(wanted, 1); batch > 1; batch--) {
    if (rows % batch == 0) return batch;
  }
  return 1;
}

// ---------- layers ----------

// The raw output of a pointwise layer with input x, and what else its gradients need.
struct Expanded {
  Tensor x, product, raw;
  const float* input_sums;
};

Expanded expand(const Flow& flow, const Tensor& x, const float* input_sums, const Layer& layer) {
  auto& kernels = program(flow.kind);
  Expanded e{x, {}, rows_of(flow, x, x.size(0), layer.channels), input_sums};
  convolve_into(e.raw, x, layer.matrix, true);
  int64_t inputs = x.size(1);
  auto batch = parts(kernels, x.size(0), inputs, inputs);
  auto gram = outer(x, x, batch);
  gram = batch > 1 ? gram.sum(0) : gram[0];
  // The column of ones in the patches gives the sums of the other columns.
  if (input_sums == nullptr) e.input_sums = gram.data_ptr<float>() + 27 * inputs;
  e.product = at::empty({layer.channels, inputs}, gram.options());
  kernels.run("moments", blocks(layer.channels, AT_ONCE), SMALL, gram.data_ptr<float>(), layer.matrix.data_ptr(), e.input_sums,
           e.product.data_ptr<float>(), layer.sums, static_cast<int>(inputs), static_cast<int>(layer.channels));
  if (input_sums == nullptr) {
    // Stored with the product, because `gram` is freed.
    e.product = at::cat({e.product, gram.narrow(0, 27, 1)});
    e.input_sums = e.product.data_ptr<float>() + layer.channels * inputs;
  }
  return e;
}

Tensor depthwise(const Flow& flow, const Tensor& x, const Layer& before, const Layer& layer, Size in, int64_t stride) {
  auto& kernels = program(flow.kind);
  auto out = in.over(stride);
  auto y = rows_of(flow, x, out.rows(), layer.channels);
  const char* name = stride == 1 ? "depthwise_1" : "depthwise_2";
  auto [maps, grid] = divide(kernels, name, in, layer.channels, stride);
  kernels.run(name, grid, BLOCK, x.data_ptr(), before.norm(), layer.weight.data_ptr<float>(), y.data_ptr(), layer.sums, maps);
  return y;
}

Tensor activated(const Flow& flow, const Tensor& x, const Layer& layer) {
  auto& kernels = program(flow.kind);
  auto y = at::empty_like(x);
  kernels.run("activate", over_rows(kernels, "activate", x, layer.channels, x.size(0)), BLOCK, x.data_ptr(), layer.norm(), y.data_ptr(),
           static_cast<int>(x.size(0)));
  return y;
}

// The raw projection of a depthwise layer's output.
Tensor project(const Flow& flow, const Tensor& x, const Layer& before, const Layer& layer) {
  auto& kernels = program(flow.kind);
  auto raw = rows_of(flow, x, x.size(0), layer.channels);
  convolve_into(raw, activated(flow, x, before), layer.matrix, true);
  kernels.run("add_up", over_rows(kernels, "add_up", raw, layer.channels, raw.size(0)), BLOCK, raw.data_ptr(), layer.sums,
           static_cast<int>(layer.channels), static_cast<int>(raw.size(0)));
  return raw;
}

// The normalised projection plus the residual; its sums are written to `sums`.
Tensor normalised(const Flow& flow, const Tensor& raw, const Layer& layer, const Tensor& more, float* sums) {
  auto& kernels = program(flow.kind);
  auto y = at::empty_like(raw);
  kernels.run("normalise", over_rows(kernels, "normalise", raw, layer.channels, raw.size(0)), BLOCK, raw.data_ptr(), layer.norm(),
           more.defined() ? more.data_ptr() : static_cast<void*>(nullptr), y.data_ptr(), sums, static_cast<int>(raw.size(0)));
  return y;
}

// ---------- their gradients ----------

Tensor like_parameter(const Tensor& parameter) { return at::empty_strided(parameter.sizes(), parameter.strides(), parameter.options()); }

struct Grads {
  Tensor weight, gamma, beta;
  explicit Grads(const Layer& layer) : weight(like_parameter(layer.weight)), gamma(at::empty_like(layer.gamma)), beta(at::empty_like(layer.beta)) {}
  NormGrad norm(const Layer& layer, const float* constant = nullptr) const {
    return {layer.norm(), layer.grads, constant, gamma.data_ptr<float>(), beta.data_ptr<float>()};
  }
  void push(variable_list& list) const { list.insert(list.end(), {weight, gamma, beta}); }
};

void finish(const Flow& flow, const NormGrad& n0, const NormGrad& n1, const NormGrad& n2, const WeightGrad& w0, const WeightGrad& w1) {
  int64_t most = std::max(n0.norm.channels + n1.norm.channels + n2.norm.channels, w0.outputs * w0.inputs + w1.outputs * w1.inputs);
  program(flow.kind).run("finish", blocks(most, BLOCK), BLOCK, n0, n1, n2, w0, w1);
}

WeightGrad weight_grad(const Grads& grads, const Tensor& partial, const Expanded* expanded = nullptr) {
  auto outputs = static_cast<int>(partial.size(1));
  return {partial.data_ptr<float>(), static_cast<int>(partial.size(0)), outputs, static_cast<int>(grads.weight.numel() / outputs),
          static_cast<int>(partial.size(2)), expanded ? expanded->product.data_ptr<float>() : nullptr, expanded ? expanded->input_sums : nullptr,
          grads.weight.data_ptr<float>()};
}

// From the gradient of a block's output, computes the gradient of the normalised input of its depthwise layer, zero outside relu6's
// linear range.
struct Lower {
  Tensor grad, partial;
};

Lower lower_back(const Flow& flow, const Tensor& grad, const Tensor& projected, const Layer& projection, const Tensor& deep,
                 const Layer& depth, const Tensor& x, const Layer& before, const Grads& of_depth, Size in, int64_t stride) {
  auto& kernels = program(flow.kind);
  int count = static_cast<int>(grad.size(0)), channels = static_cast<int>(projection.channels);
  kernels.run("add_up_back", over_rows(kernels, "add_up_back", grad, channels, count), BLOCK, grad.data_ptr(), projected.data_ptr(),
           projection.grads, channels, count);
  auto raw = at::empty_like(projected);
  kernels.run("normalise_back", over_rows(kernels, "normalise_back", grad, channels, count), BLOCK, grad.data_ptr(), projected.data_ptr(),
           projection.norm(), static_cast<const float*>(projection.grads), raw.data_ptr(), count);
  auto through = at::empty_like(deep);
  convolve_into(through, raw, projection.matrix, false);
  auto active = at::empty_like(deep);
  kernels.run("mask", over_rows(kernels, "mask", deep, depth.channels, count), BLOCK, through.data_ptr(), deep.data_ptr(), depth.norm(),
           static_cast<void*>(nullptr), active.data_ptr(), depth.grads, 0, count);
  auto partial = outer(raw, active, parts(kernels, count, channels, depth.channels));
  active.reset();
  auto dx = at::empty_like(x);
  of_depth.weight.zero_();
  const char* name = stride == 1 ? "depthwise_back_1" : "depthwise_back_2";
  auto [maps, grid] = divide(kernels, name, in, depth.channels, stride);
  kernels.run(name, grid, BLOCK, through.data_ptr(), deep.data_ptr(), depth.norm(), static_cast<const float*>(depth.grads), x.data_ptr(),
           before.norm(), depth.weight.data_ptr<float>(), dx.data_ptr(), before.grads, of_depth.weight.data_ptr<float>(), maps);
  return {dx, partial};
}

// The gradient of a pointwise layer's input, computed from that of its normalised output, plus `more`: the gradient of the block's
// output.
Tensor expand_back(Flow& flow, const Tensor& grad, const Expanded& e, const Layer& layer, const Tensor& more) {
  auto& kernels = program(flow.kind);
  auto inputs = e.x.size(1);
  auto scaled = at::empty_like(layer.matrix), minus = at::empty({inputs, layer.channels}, layer.matrix.options());
  auto* constant = flow.take(inputs);
  kernels.run("unfold", blocks(layer.channels, pack(minus)), BLOCK, layer.matrix.data_ptr(), layer.norm(), static_cast<const float*>(layer.grads),
           scaled.data_ptr(), minus.data_ptr(), static_cast<const float*>(more.defined() ? flow.constant : nullptr), constant,
           static_cast<int>(inputs));
  auto square = at::empty({inputs, inputs}, layer.matrix.options());
  convolve_into(square, minus, layer.matrix, false);
  flow.constant = constant;
  auto dx = at::empty_like(e.x);
  convolve_into(dx, e.x, square, false, more);
  convolve_into(dx, grad, scaled, false, dx);
  return dx;
}

Tensor expand_partial(const Flow& flow, const Tensor& grad, const Expanded& e) {
  return outer(grad, e.x, parts(program(flow.kind), grad.size(0), grad.size(1), e.x.size(1)));
}

// ---------- steps ----------

// A view of `rows` as feature maps [images, channels, height, width].
Tensor as_maps(const Tensor& rows, Size size) {
  return rows.view({size.images, size.height, size.width, rows.size(1)}).permute({0, 3, 1, 2});
}
Tensor as_rows(const Flow& flow, const Tensor& maps) {
  auto last = maps.permute({0, 2, 3, 1}).to(flow.kind).contiguous();
  return last.view({-1, last.size(3)});
}

variable_list inputs_of(const Tensor& x, const std::vector<Layer>& layers) {
  variable_list inputs{x};
  for (const auto& layer : layers) inputs.insert(inputs.end(), {layer.weight, layer.gamma, layer.beta});
  return inputs;
}

using Shared = std::shared_ptr<Flow>;

// The stem, which is a pointwise layer on patches, and the first block, which has no expansion.
Tensor head(const Shared& flow, const Tensor& images, const std::vector<Layer>& layers, Size in, float* sums) {
  auto size = in.over(2);
  auto inputs = inputs_of(images, layers);
  Expanded stem;
  Tensor deep, raw, y;
  {
    at::AutoDispatchBelowADInplaceOrView guard;
    auto& kernels = program(flow->kind);
    auto rows = rows_of(*flow, images, size.rows(), PATCH);
    auto given = images.scalar_type() == at::kFloat || images.scalar_type() == flow->kind ? images : images.to(at::kFloat);
    kernels.run("patches", blocks(size.rows() * (PATCH / pack(rows)), BLOCK), BLOCK, given.data_ptr(), given.scalar_type() == at::kFloat ? 1 : 0,
             given.stride(0), given.stride(1), given.stride(2), given.stride(3), rows.data_ptr(), static_cast<int>(in.height),
             static_cast<int>(in.width), static_cast<int>(size.height), static_cast<int>(size.width), static_cast<int>(size.rows()));
    stem = expand(*flow, rows, nullptr, layers[0]);
    deep = depthwise(*flow, stem.raw, layers[0], layers[1], size, 1);
    raw = project(*flow, deep, layers[1], layers[2]);
    y = as_maps(normalised(*flow, raw, layers[2], {}, sums), size);
  }
  if (recorded(inputs)) {
    record(inputs, {&y}, [=](const Step&, variable_list&& grads) {
      at::AutoDispatchBelowADInplaceOrView guard;
      Grads of_stem(layers[0]), of_depth(layers[1]), of_projection(layers[2]);
      auto lower = lower_back(*flow, as_rows(*flow, grads[0]), raw, layers[2], deep, layers[1], stem.raw, layers[0], of_depth, size, 1);
      auto partial = expand_partial(*flow, lower.grad, stem);
      finish(*flow, of_stem.norm(layers[0]), of_depth.norm(layers[1]), of_projection.norm(layers[2], flow->constant),
             weight_grad(of_stem, partial, &stem), weight_grad(of_projection, lower.partial));
      variable_list results{Tensor()};
      for (const auto* layer_grads : {&of_stem, &of_depth, &of_projection}) layer_grads->push(results);
      return results;
    });
  }
  return y;
}

Tensor block(const Shared& flow, const Tensor& x, const float* input_sums, const std::vector<Layer>& layers, Size in, int64_t stride, bool residual,
             float* sums) {
  auto inputs = inputs_of(x, layers);
  auto size = in.over(stride);
  Expanded wide;
  Tensor deep, raw, y;
  {
    at::AutoDispatchBelowADInplaceOrView guard;
    auto rows = as_rows(*flow, x);
    wide = expand(*flow, rows, input_sums, layers[0]);
    deep = depthwise(*flow, wide.raw, layers[0], layers[1], in, stride);
    raw = project(*flow, deep, layers[1], layers[2]);
    y = as_maps(normalised(*flow, raw, layers[2], residual ? rows : Tensor(), sums), size);
  }
  if (recorded(inputs)) {
    record(inputs, {&y}, [=](const Step&, variable_list&& grads) {
      at::AutoDispatchBelowADInplaceOrView guard;
      Grads of_wide(layers[0]), of_depth(layers[1]), of_projection(layers[2]);
      auto grad = as_rows(*flow, grads[0]);
      auto* constant = flow->constant;
      auto lower = lower_back(*flow, grad, raw, layers[2], deep, layers[1], wide.raw, layers[0], of_depth, in, stride);
      auto dx = expand_back(*flow, lower.grad, wide, layers[0], residual ? grad : Tensor());
      auto partial = expand_partial(*flow, lower.grad, wide);
      finish(*flow, of_wide.norm(layers[0]), of_depth.norm(layers[1]), of_projection.norm(layers[2], constant),
             weight_grad(of_wide, partial, &wide), weight_grad(of_projection, lower.partial));
      variable_list results{as_maps(dx, in)};
      for (const auto* layer_grads : {&of_wide, &of_depth, &of_projection}) layer_grads->push(results);
      return results;
    });
  }
  return y;
}

Tensor tail(const Shared& flow, const Tensor& x, const float* input_sums, const std::vector<Layer>& layers, Size size) {
  auto inputs = inputs_of(x, layers);
  const auto& layer = layers[0];
  int area = static_cast<int>(size.height * size.width);
  Expanded wide;
  Tensor y;
  {
    at::AutoDispatchBelowADInplaceOrView guard;
    auto& kernels = program(flow->kind);
    wide = expand(*flow, as_rows(*flow, x), input_sums, layer);
    y = rows_of(*flow, x, size.images, layer.channels);
    dim3 grid(blocks(layer.channels, LANES * pack(y)), static_cast<unsigned>(size.images));
    kernels.run("pool", grid, BLOCK, wide.raw.data_ptr(), layer.norm(), y.data_ptr(), area);
  }
  if (recorded(inputs)) {
    record(inputs, {&y}, [=](const Step&, variable_list&& grads) {
      at::AutoDispatchBelowADInplaceOrView guard;
      auto& kernels = program(flow->kind);
      const auto& layer = layers[0];
      Grads of_wide(layer);
      auto grad = grads[0].to(flow->kind).contiguous();
      auto through = at::empty_like(wide.raw);
      int count = static_cast<int>(through.size(0));
      kernels.run("mask", over_rows(kernels, "mask", through, layer.channels, count), BLOCK, grad.data_ptr(), wide.raw.data_ptr(), layer.norm(),
               through.data_ptr(), static_cast<void*>(nullptr), layer.grads, area, count);
      auto dx = expand_back(*flow, through, wide, layer, {});
      auto partial = expand_partial(*flow, through, wide);
      finish(*flow, of_wide.norm(layer), NormGrad{}, NormGrad{}, weight_grad(of_wide, partial, &wide), WeightGrad{});
      variable_list results{as_maps(dx, size)};
      of_wide.push(results);
      return results;
    });
  }
  return y;
}

// Converts the matrices of pointwise layers to the type of activations. The stem's matrix has as many columns as a patch.
void prepare(Layer& stem, std::vector<std::vector<Layer>*>& groups, at::ScalarType kind) {
  at::NoGradGuard without;
  auto flat = [](const Tensor& weight) {
    auto inputs = weight.numel() / weight.size(0);
    return at::detach(weight).as_strided({weight.size(0), inputs}, {inputs, 1});
  };
  stem.matrix = at::zeros({stem.channels, PATCH}, stem.weight.options().dtype(kind));
  stem.matrix.narrow(1, 0, 27).copy_(flat(stem.weight));
  std::vector<Tensor> from, to;
  for (auto* group : groups) {
    for (auto& layer : *group) {
      bool depthwise = layer.weight.size(1) == 1 && layer.weight.size(2) == 3;
      if (depthwise || &layer == &stem) continue;
      auto matrix = flat(layer.weight);
      layer.matrix = kind == at::kFloat ? matrix : at::empty(matrix.sizes(), matrix.options().dtype(kind));
      from.push_back(matrix);
      to.push_back(layer.matrix);
    }
  }
  if (kind != at::kFloat) at::_foreach_copy_(to, from);
}

}  // namespace

// Compiles the kernels for a type of activations.
SHIM_API int mcc_mobilenet_compile(int kind) {
  GUARD(-1, {
    program(static_cast<at::ScalarType>(kind));
    return 0;
  })
}

// Images [images, 3, height, width] -> the mean of the last feature maps [images, channels], in training. `parameters`: weight, gamma and
// beta of each layer, channels last; `running`: running mean and variance of each layer. `strides`: of each block; blocks with stride 1
// whose input and output have the same size have residuals. The type of activations is autocast's type, or else that of the weights.
SHIM_API Tensor* mcc_mobilenet_features(Tensor* images, Tensor* const* parameters, Tensor* const* running, size_t layers,
                                        const int64_t* strides, size_t count) {
  GUARD(nullptr, {
    auto flow = std::make_shared<Flow>();
    bool mixed = at::autocast::is_autocast_enabled(at::kCUDA);
    flow->kind = mixed ? at::autocast::get_autocast_dtype(at::kCUDA) : parameters[0]->scalar_type();
    TORCH_CHECK(layers == 3 * count + 1 && parameters[0]->scalar_type() == at::kFloat, "a MobileNetV2 of ", layers, " layers and ", count,
                " blocks with weights in ", parameters[0]->scalar_type());
    size_t next = 0;
    auto take = [&](size_t wanted) {
      std::vector<Layer> taken(wanted);
      for (auto& layer : taken) {
        layer.weight = *parameters[3 * next];
        layer.gamma = *parameters[3 * next + 1];
        layer.beta = *parameters[3 * next + 2];
        layer.running_mean = *running[2 * next];
        layer.running_variance = *running[2 * next + 1];
        layer.channels = layer.weight.size(0);
        next++;
      }
      return taken;
    };
    std::vector<std::vector<Layer>> each;
    for (size_t k = 0; k < count; k++) each.push_back(take(3));
    each.push_back(take(1));
    std::vector<std::vector<Layer>*> groups;
    int64_t floats = 0;
    for (auto& group : each) {
      groups.push_back(&group);
      // Sums of each layer in both directions, and sums of the block's output and of its input's gradient.
      for (auto& layer : group) floats += 4 * layer.channels + 2 * std::max(layer.channels, layer.weight.size(1));
    }
    prepare(each[0][0], groups, flow->kind);
    flow->arena = at::zeros({floats}, parameters[0]->options().requires_grad(false));
    flow->next = flow->arena.data_ptr<float>();
    Size size{images->size(0), images->size(2), images->size(3)};
    auto begin = [&](Layer& layer, int64_t rows) {
      layer.sums = flow->take(2 * layer.channels);
      layer.grads = flow->take(2 * layer.channels);
      layer.count = static_cast<double>(rows);
    };
    Tensor x = *images;
    float* sums = nullptr;
    for (size_t k = 0; k < count; k++) {
      auto& group = each[k];
      auto inner = k == 0 ? size.over(2) : size, outer = inner.over(strides[k]);
      begin(group[0], inner.rows());
      begin(group[1], outer.rows());
      begin(group[2], outer.rows());
      auto* out_sums = flow->take(group[2].channels);
      bool residual = k > 0 && strides[k] == 1 && x.size(1) == group[2].channels;
      x = k == 0 ? head(flow, x, group, size, out_sums) : block(flow, x, sums, group, inner, strides[k], residual, out_sums);
      sums = out_sums;
      size = outer;
    }
    begin(each.back()[0], size.rows());
    return new Tensor(tail(flow, x, sums, each.back(), size));
  })
}
