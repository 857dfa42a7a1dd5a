// The kernels of a Llama block on GPUs. Each of them does what takes libtorch several kernels. They are compiled for the type of
// activations and the rank of adapters.
#include <ATen/ATen.h>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "guard.h"
#include "kernels/llama.h"
#include "llama_kernels.h"
#include "nvrtc.h"
#include "product.h"

using at::Tensor;

namespace {

// Threads per block: for most kernels, for those whose blocks work on whole rows, and for those that work on a part of a row.
constexpr int BLOCK = 256, ROW_BLOCK = 512, SPAN_BLOCK = 128;
// From this number of tokens on, a GPU is busy even if each block works on several tokens.
constexpr int64_t FILLS_GPU = 512;
// Adapters with a higher rank use libtorch's products, because the kernels here would gain little: their time is small compared with the
// weights'.
constexpr int64_t HIGHEST_RANK = 16;
// The first architecture whose tensor cores support bf16.
constexpr int MMA_SINCE = 80;
// The first architecture that converts numbers to FP8.
constexpr int FP8_SINCE = 89;

struct Program : Kernels {
  // Whether products with adapters run on tensor cores.
  bool mma;

  Program(at::ScalarType kind, int64_t rank) {
    mma = kind != at::kFloat && architecture >= MMA_SINCE && rank % 8 == 0;
    std::vector<std::string> files{"llama.cu", "swiglu.cu", "quantised.cu"};
    if (mma) files.push_back("llama_mma.cu");
    compile(files, kind, {"-DRANK=" + std::to_string(rank), kind == at::kHalf ? "-DMMA=\"f16\"" : "-DMMA=\"bf16\""});
  }
};

unsigned blocks(int64_t count, int64_t each) { return static_cast<unsigned>((count + each - 1) / each); }

// ---------- kernels ----------

struct CudaKernels : PlainKernels {
  std::mutex building;
  std::map<std::pair<at::ScalarType, int64_t>, std::unique_ptr<Program>> programs;

  Program& program(at::ScalarType kind, int64_t rank = 8) {
    std::lock_guard lock(building);
    auto& compiled = programs[{kind, rank}];
    if (!compiled) compiled = std::make_unique<Program>(kind, rank);
    return *compiled;
  }

  // How many values fit into 16 bytes.
  static int64_t pack(const Tensor& x) { return 16 / x.element_size(); }

  // Whether rows can be read 16 bytes at a time.
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

  // Without adapters, the list is empty.
  static Parts<void> parts_of(const Linear& linear) {
    Parts<void> parts{};
    for (size_t p = 0; p < linear.b.size(); p++) {
      parts.b[p] = linear.b[p].data_ptr();
      parts.start[p] = static_cast<int>(linear.start[p]);
      parts.width[p] = static_cast<int>(linear.b[p].size(0));
    }
    parts.count = static_cast<int>(linear.b.size());
    return parts;
  }

  static bool fits_or_none(const Linear& linear, const Tensor& u) { return !linear.adapted() || (fits(linear) && fits_whole(u)); }
  static int64_t rank_of(const Linear& linear) { return linear.adapted() ? linear.rank() : 8; }
  static void* pointer(const Tensor& tensor) { return tensor.defined() ? tensor.data_ptr() : nullptr; }

  // Whether the adapters are the two parts of [gate | up], or there are none.
  static bool halves(const Linear& linear, int64_t width) {
    return !linear.adapted() || (linear.b.size() == 2 && linear.start[0] == 0 && linear.start[1] == width && linear.b[0].size(0) == width);
  }
  // Whether the adapter covers all columns, or there is none.
  static bool whole(const Linear& linear, int64_t width) {
    return !linear.adapted() || (linear.b.size() == 1 && linear.b[0].size(0) == width);
  }

  static int64_t widest(const Linear& linear) {
    int64_t widest = 0;
    for (const auto& b : linear.b) widest = std::max(widest, b.size(0));
    return widest;
  }

  void dequantise(const Nf4& w, Tensor rows) override {
    program(rows.scalar_type())
        .run("dequantise", blocks(rows.numel(), 2 * BLOCK * pack(rows)), BLOCK, w.codes.data_ptr(), w.scales.data_ptr(),
             w.factors.data_ptr(), w.mean.data_ptr(), w.levels.data_ptr(), rows.data_ptr(), rows.numel());
  }

  Tensor fake_quantise_groups(const Tensor& w, int64_t group) override {
    if (!fits_whole(w) || group % pack(w) != 0) return PlainKernels::fake_quantise_groups(w, group);
    auto out = at::empty_like(w);
    int64_t groups = w.numel() / group;
    program(w.scalar_type())
        .run("fake_quantise_groups", blocks(groups, BLOCK / 32), BLOCK, w.data_ptr(), out.data_ptr(), static_cast<int>(group), groups);
    return out;
  }

  Tensor fake_quantise_tokens(const Tensor& x) override {
    if (!fits(x)) return PlainKernels::fake_quantise_tokens(x);
    auto out = at::empty({x.size(0), x.size(1)}, x.options());
    program(x.scalar_type())
        .run("fake_quantise_tokens", static_cast<unsigned>(x.size(0)), BLOCK, x.data_ptr(), out.data_ptr(), static_cast<int>(x.size(1)),
             x.stride(0));
    return out;
  }

  Fp8Rows quantise_rows(const Tensor& x) override {
    if (!fits(x)) return PlainKernels::quantise_rows(x);
    auto& kernels = program(x.scalar_type());
    if (kernels.architecture < FP8_SINCE) return PlainKernels::quantise_rows(x);
    auto codes = at::empty({x.size(0), x.size(1)}, x.options().dtype(at::kFloat8_e4m3fn));
    auto scales = at::empty({x.size(0), 1}, x.options().dtype(at::kFloat));
    kernels.run("quantise_rows", static_cast<unsigned>(x.size(0)), BLOCK, x.data_ptr(), codes.data_ptr(), scales.data_ptr(),
                static_cast<int>(x.size(1)), x.stride(0));
    return {codes, scales};
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

  // The launch of a norm: each block works on a few whole rows. If there are few tokens, each thread works on one pack of its rows.
  struct Rows {
    dim3 grid, block;

    Rows(const Tensor& x, bool many, bool mma) : grid(blocks(x.size(0), mma ? 8 : many ? MANY : 2)), block(ROW_BLOCK) {
      if (!many) block.x = std::clamp(blocks(x.size(1), pack(x) * 32) * 32, 128u, 1024u);
    }
  };

  void add_up_norm(Tensor& y, const Tensor& u, const Linear& linear, const Tensor& more, const Tensor& weight, double epsilon,
                   Tensor& normed, Tensor& inverse) override {
    if (!fits_whole(y) || !fits_whole(more) || !fits_or_none(linear, u) || !whole(linear, y.size(1))) {
      return LlamaKernels::add_up_norm(y, u, linear, more, weight, epsilon, normed, inverse);
    }
    normed = at::empty_like(y);
    inverse = at::empty({y.size(0)}, y.options().dtype(at::kFloat));
    auto& kernels = program(y.scalar_type(), rank_of(linear));
    bool many = y.size(0) >= FILLS_GPU, mma = kernels.mma && linear.adapted() && many;
    Rows rows(y, many, mma);
    kernels.run(mma ? "mma_add_up_norm" : many ? "add_up_norm_many" : "add_up_norm", rows.grid, rows.block, y.data_ptr(), pointer(u),
             more.data_ptr(), parts_of(linear), weight.data_ptr(), normed.data_ptr(), inverse.data_ptr(), static_cast<int>(y.size(0)),
             static_cast<int>(y.size(1)), static_cast<float>(epsilon));
  }

  Tensor rms_norm_backward(Tensor& grad, const Tensor& x, const Tensor& weight, const Tensor& inverse, const Tensor& more,
                           const Tensor& du, const Tensor& a) override {
    bool adapted = du.defined();
    if (!fits_whole(x) || !fits(grad) || (more.defined() && !fits_whole(more)) || (adapted && (!fits_below(a) || !fits(du)))) {
      return PlainKernels::rms_norm_backward(grad, x, weight, inverse, more, du, a);
    }
    auto dx = at::empty_like(x);
    auto& kernels = program(x.scalar_type());
    bool many = x.size(0) >= FILLS_GPU, mma = kernels.mma && adapted && many;
    Rows rows(x, many, mma);
    kernels.run(mma ? "mma_rms_norm_backward" : many ? "rms_norm_backward_many" : "rms_norm_backward", rows.grid, rows.block,
             grad.data_ptr(), x.data_ptr(), weight.data_ptr(), inverse.data_ptr(), pointer(more), pointer(du),
             adapted ? a.data_ptr() : nullptr, dx.data_ptr(), static_cast<int>(x.size(1)), adapted ? static_cast<int>(a.size(0)) : 0,
             static_cast<int>(x.size(0)), grad.stride(0), adapted ? du.stride(0) : int64_t{0});
    return dx;
  }

  Tensor add_up_turn(Tensor& rows, const Tensor& u, const Linear& linear, const Heads& heads) override {
    auto half = heads.width / 2;
    if (!fits_whole(rows) || half % pack(rows) != 0 || !fits_or_none(linear, u)) {
      return PlainKernels::add_up_turn(rows, u, linear, heads);
    }
    auto count = heads.queries + 2 * heads.keys;
    auto& kernels = program(rows.scalar_type(), rank_of(linear));
    bool mma = kernels.mma && half % STRIPE == 0 && heads.repeats == 1;
    Tensor repeated;
    if (heads.repeats > 1) repeated = at::empty({rows.size(0), 2, heads.queries, heads.width}, rows.options());
    dim3 grid = mma ? dim3(blocks(count * half, STRIPE), blocks(rows.size(0), TILES))
                    : dim3(blocks(rows.size(0), MANY), blocks(count * half, BLOCK * pack(rows)));
    kernels.run(mma ? "mma_add_up_turn" : "add_up_turn", grid, BLOCK, rows.data_ptr(), pointer(u), parts_of(linear), heads.cos.data_ptr(),
             heads.sin.data_ptr(), heads.positions.data_ptr(), pointer(repeated), static_cast<int>(heads.queries), static_cast<int>(heads.keys),
             static_cast<int>(half), static_cast<int>(rows.size(0)));
    return repeated;
  }

  Tensor turn_back(const Tensor& q, const Tensor& k, const Tensor& v, const Heads& heads) override {
    auto half = heads.width / 2;
    if (half % pack(q) != 0) return PlainKernels::turn_back(q, k, v, heads);
    // Whether the heads of a token are contiguous, and tokens are at a constant distance.
    auto even = [&](const Tensor& x) {
      bool is = x.stride(3) == 1 && x.stride(2) == heads.width && x.stride(0) == x.size(1) * x.stride(1) &&
                x.stride(1) % pack(x) == 0 && reinterpret_cast<uintptr_t>(x.data_ptr()) % 16 == 0;
      return is ? x : x.contiguous();
    };
    auto from_q = even(q), from_k = even(k), from_v = even(v);
    auto rows = at::empty({q.size(0) * q.size(1), heads.columns()}, q.options());
    program(q.scalar_type())
        .run("turn_back", static_cast<unsigned>(rows.size(0)), BLOCK, from_q.data_ptr(), from_k.data_ptr(), from_v.data_ptr(),
             rows.data_ptr(), heads.cos.data_ptr(), heads.sin.data_ptr(), heads.positions.data_ptr(), static_cast<int>(heads.queries),
             static_cast<int>(heads.keys), static_cast<int>(heads.repeats), static_cast<int>(half), from_q.stride(1), from_k.stride(1),
             from_v.stride(1));
    return rows;
  }

  Tensor swiglu(const Tensor& gates, const Tensor& u, const Linear& gate_up) override {
    auto tokens = gates.size(0), width = gates.size(1) / 2;
    if (!fits_whole(gates) || width % pack(gates) != 0 || !fits_or_none(gate_up, u) || !halves(gate_up, width)) {
      return PlainKernels::swiglu(gates, u, gate_up);
    }
    auto y = at::empty({tokens, width}, gates.options());
    auto& kernels = program(y.scalar_type(), rank_of(gate_up));
    bool mma = kernels.mma && gate_up.adapted();
    int count = static_cast<int>(tokens), columns = static_cast<int>(width);
    if (mma) {
      kernels.run("mma_swiglu", blocks(width, STRIPE), BLOCK, gates.data_ptr(), u.data_ptr(), y.data_ptr(), parts_of(gate_up), count, columns);
    } else {
      auto name = gate_up.adapted() ? "swiglu_adapted" : "swiglu";
      unsigned stretches = blocks(width, SPAN_BLOCK * pack(y));
      // As few tokens per block as still let all blocks run at the same time.
      int span = gate_up.adapted() ? blocks(tokens, std::max(1u, kernels.at_once(name, SPAN_BLOCK) / stretches)) : 1;
      kernels.run(name, dim3(blocks(tokens, span), stretches), SPAN_BLOCK, gates.data_ptr(), pointer(u), y.data_ptr(), parts_of(gate_up),
               count, columns, span);
    }
    return y;
  }

  SwigluGrads swiglu_backward(Tensor& grad, const Tensor& gates, const Tensor& u, const Linear& gate_up, const Tensor& du,
                              const Linear& down) override {
    auto tokens = gates.size(0), width = gates.size(1) / 2;
    bool adapted = du.defined();
    bool same = adapted == gate_up.adapted() && (!adapted || (fits_below(down.a) && fits(du) && down.a.size(0) == gate_up.rank()));
    if (!fits_whole(gates) || !(adapted ? fits(grad) : fits_whole(grad)) || width % pack(grad) != 0 || !fits_or_none(gate_up, u) ||
        !halves(gate_up, width) || !same) {
      return PlainKernels::swiglu_backward(grad, gates, u, gate_up, du, down);
    }
    SwigluGrads grads;
    grads.gates = at::empty_like(gates);
    auto& kernels = program(grad.scalar_type(), rank_of(gate_up));
    int count = static_cast<int>(tokens), columns = static_cast<int>(width);
    if (adapted) {
      grads.down.a = at::empty_like(down.a);
      for (const auto& b : gate_up.b) grads.gate_up.b.push_back(at::empty_like(b));
      kernels.run(kernels.mma ? "mma_swiglu_backward" : "swiglu_adapted_backward", blocks(width, kernels.mma ? STRIPE : BAND), BLOCK,
               grad.data_ptr(), gates.data_ptr(), u.data_ptr(), parts_of(gate_up), du.data_ptr(), down.a.data_ptr(), grads.gates.data_ptr(), grads.down.a.data_ptr(), grads.gate_up.b[0].data_ptr(),
               grads.gate_up.b[1].data_ptr(), count, columns, grad.stride(0), du.stride(0));
      return grads;
    }
    grads.output = at::empty_like(grad);
    kernels.run("swiglu_backward", dim3(blocks(tokens, 1), blocks(width, SPAN_BLOCK * pack(grad))), SPAN_BLOCK, grad.data_ptr(),
             gates.data_ptr(), grads.gates.data_ptr(), grads.output.data_ptr(), columns);
    return grads;
  }

  Tensor cross_entropy(Tensor& logits, const Tensor& labels) override {
    if (!fits_whole(logits)) return PlainKernels::cross_entropy(logits, labels);
    auto losses = at::empty({logits.size(0)}, logits.options().dtype(at::kFloat));
    program(logits.scalar_type())
        .run("cross_entropy", static_cast<unsigned>(logits.size(0)), 1024, logits.data_ptr(), labels.data_ptr(), losses.data_ptr(),
             static_cast<int>(logits.size(1)));
    return losses;
  }

  // How `down` and `back` divide their work. A block works on `span` tokens and a range of columns. The last block that finishes adds up
  // the blocks' sums.
  struct Sums {
    int span;
    dim3 grid;
    Tensor parts;

    Sums(Program& kernels, const char* name, const Tensor& x, int64_t width, unsigned groups, int64_t rank) {
      auto tokens = x.size(0);
      auto stretches = blocks(width, BLOCK * pack(x));
      // All blocks run at the same time, or in equal rounds.
      auto fair = blocks(tokens * stretches * groups, kernels.at_once(name, BLOCK));
      span = MANY * blocks(fair, MANY * blocks(fair, SUMMED));
      grid = dim3(stretches, blocks(tokens, span), groups);
      parts = at::empty({groups, stretches, tokens, rank}, x.options().dtype(at::kFloat));
    }
    bool fit() const { return grid.y * grid.z <= ARRIVALS; }
  };

  // Whether `down` can use this matrix: it works on groups of 8 rows, whatever the rank.
  static bool fits_below(const Tensor& a) { return fits_whole(a) && a.size(0) % 8 == 0 && a.size(0) <= 4 * HIGHEST_RANK; }

  Tensor down(const Tensor& x, const Tensor& a, double scale) override {
    if (!fits(x) || !fits_below(a)) return PlainKernels::down(x, a, scale);
    auto& kernels = program(x.scalar_type());
    auto tokens = x.size(0), count = a.size(0);
    auto u = at::empty({tokens, count}, x.options());
    int width = static_cast<int>(x.size(1)), rows = static_cast<int>(count), token_count = static_cast<int>(tokens);
    if (kernels.mma) {
      kernels.run("mma_down", dim3(blocks(tokens, 8), blocks(count, 16)), ROW_BLOCK, x.data_ptr(), a.data_ptr(), u.data_ptr(), width,
               rows, token_count, x.stride(0), static_cast<float>(scale));
      return u;
    }
    Sums sums(kernels, "down", x, width, blocks(count, 8), 8);
    if (!sums.fit()) return PlainKernels::down(x, a, scale);
    kernels.run("down", sums.grid, BLOCK, x.data_ptr(), a.data_ptr(), u.data_ptr(), sums.parts.data_ptr(), width, rows, token_count, x.stride(0),
             sums.span, static_cast<float>(scale));
    return u;
  }

  void add_up(Tensor& y, const Tensor& u, const Linear& linear, const Tensor& more) override {
    // If `more` is given, the parts must cover all columns.
    bool all = linear.b.size() == 1 && linear.b[0].size(0) == y.size(1);
    if (!linear.adapted() || !fits(y) || !fits(linear) || !fits_whole(u) ||
        (more.defined() && (!all || !fits(more) || more.stride(0) != y.stride(0)))) {
      return PlainKernels::add_up(y, u, linear, more);
    }
    auto& kernels = program(y.scalar_type(), linear.rank());
    auto parts = static_cast<unsigned>(linear.b.size());
    dim3 grid = kernels.mma ? dim3(blocks(widest(linear), STRIPE), blocks(y.size(0), TILES), parts)
                         : dim3(blocks(y.size(0), MANY), parts, blocks(widest(linear), BLOCK * pack(y)));
    kernels.run(kernels.mma ? "mma_add_up" : "add_up", grid, BLOCK, y.data_ptr(), u.data_ptr(), pointer(more), parts_of(linear), static_cast<int>(y.size(0)),
             y.stride(0));
  }

  Tensor back(const Tensor& grad, const Linear& linear) override {
    if (!fits(grad) || !fits(linear)) return PlainKernels::back(grad, linear);
    auto& kernels = program(grad.scalar_type(), linear.rank());
    auto du = at::empty({grad.size(0), linear.a.size(0)}, grad.options());
    int tokens = static_cast<int>(grad.size(0));
    auto parts = static_cast<unsigned>(linear.b.size());
    if (kernels.mma) {
      kernels.run("mma_back", dim3(blocks(tokens, 8), parts), ROW_BLOCK, grad.data_ptr(), parts_of(linear), du.data_ptr(), tokens,
               grad.stride(0), static_cast<float>(linear.scale));
      return du;
    }
    Sums sums(kernels, "back", grad, widest(linear), parts, linear.rank());
    if (!sums.fit()) return PlainKernels::back(grad, linear);
    kernels.run("back", sums.grid, BLOCK, grad.data_ptr(), parts_of(linear), du.data_ptr(), sums.parts.data_ptr(), tokens, grad.stride(0),
             sums.span, static_cast<float>(linear.scale));
    return du;
  }

  void place(const std::vector<const Linear*>& layers) override {
    Places<void> places{};
    unsigned next = 0;
    int64_t most = 0, rank = layers[0]->rank();
    for (const auto* layer : layers) {
      auto wide = layer->wide();
      if (!fits(wide) || !fits(*layer) || layer->rank() != rank || next + layer->b.size() > 4) return PlainKernels::place(layers);
      for (size_t p = 0; p < layer->b.size(); p++) {
        auto to = wide.narrow(0, layer->start[p], layer->b[p].size(0)).narrow(1, layer->weight.size(1) + p * rank, rank);
        if (!fits(to)) return PlainKernels::place(layers);
        places.each[next++] = {layer->b[p].data_ptr(), to.data_ptr(), to.stride(0), static_cast<int>(to.size(0)),
                               static_cast<float>(layer->scale)};
        most = std::max(most, to.size(0));
      }
    }
    const auto& b = layers[0]->b[0];
    program(b.scalar_type(), rank).run("place", dim3(blocks(most * rank, BLOCK * pack(b)), next), BLOCK, places);
  }

  Tensor add_back(const Tensor& dx, const Tensor& du, const Tensor& a) override {
    if (!fits(dx) || !fits(du) || !fits_below(a)) return PlainKernels::add_back(dx, du, a);
    auto& kernels = program(dx.scalar_type());
    auto out = dx.is_contiguous() ? dx : at::empty({dx.size(0), dx.size(1)}, dx.options());
    dim3 grid = kernels.mma ? dim3(blocks(dx.size(1), STRIPE), blocks(dx.size(0), TILES))
                         : dim3(blocks(dx.size(0), MANY), blocks(dx.size(1), BLOCK * pack(dx)));
    kernels.run(kernels.mma ? "mma_add_back" : "add_back", grid, BLOCK, dx.data_ptr(), du.data_ptr(), a.data_ptr(), out.data_ptr(),
             static_cast<int>(dx.size(1)), static_cast<int>(a.size(0)), static_cast<int>(dx.size(0)), dx.stride(0), du.stride(0));
    return out;
  }

  void adapter_grads(AdapterGrads& grads, const Tensor& du, const Tensor& x, const Tensor& grad, const Tensor& u,
                     const Linear& linear) override {
    bool of_a = !grads.a.defined(), of_b = grads.b.empty();
    if ((of_a && (!fits(x) || !fits(du) || !fits_below(linear.a))) || (of_b && (!fits(grad) || !fits_whole(u))) || !fits(linear)) {
      return PlainKernels::adapter_grads(grads, du, x, grad, u, linear);
    }
    Outs<void> outs{};
    if (of_a) grads.a = at::empty_like(linear.a);
    for (size_t p = 0; of_b && p < linear.b.size(); p++) {
      grads.b.push_back(at::empty_like(linear.b[p]));
      outs.b[p] = grads.b[p].data_ptr();
    }
    auto& kernels = program(linear.a.scalar_type(), linear.rank());
    auto tokens = static_cast<int>(u.size(0)), count = static_cast<int>(linear.a.size(0)), rank = static_cast<int>(linear.rank());
    if (kernels.mma) return outers(kernels, of_a, of_b, grads, du, x, grad, u, linear);
    if (of_a) {
      kernels.run("grad_a", dim3(blocks(x.size(1), 8 * pack(x)), blocks(count, rank)), dim3(8, 32), x.data_ptr(), du.data_ptr(),
               grads.a.data_ptr(), static_cast<int>(x.size(1)), static_cast<int>(du.stride(0)), tokens, x.stride(0));
    }
    if (of_b) {
      dim3 grid(blocks(widest(linear), 8 * pack(grad)), static_cast<unsigned>(linear.b.size()));
      kernels.run("grad_b", grid, dim3(8, 32), grad.data_ptr(), u.data_ptr(), parts_of(linear), outs, tokens, grad.stride(0));
    }
  }

  // Computes all of a layer's sums over tokens in one launch.
  static void outers(Program& kernels, bool of_a, bool of_b, AdapterGrads& grads, const Tensor& du, const Tensor& x, const Tensor& grad,
                     const Tensor& u, const Linear& linear) {
    Outers<void> jobs{};
    unsigned next = 0;
    int64_t widest = 0;
    auto rank = linear.rank(), count = linear.a.size(0);
    auto add = [&](const Tensor& from, int64_t start, int64_t width, const Tensor& by, int64_t first, int64_t rows, void* out, bool across) {
      auto at = [](const Tensor& tensor, int64_t place) { return static_cast<char*>(tensor.data_ptr()) + place * tensor.element_size(); };
      jobs.each[next++] = {at(from, start), from.stride(0), static_cast<int>(width), at(by, first), static_cast<int>(by.stride(0)),
                           static_cast<int>(rows), out, across};
      widest = std::max(widest, width);
    };
    for (int64_t first = 0; of_a && first < count; first += 16) {
      auto rows = grads.a.narrow(0, first, std::min<int64_t>(16, count - first));
      add(x, 0, x.size(1), du, first, rows.size(0), rows.data_ptr(), false);
    }
    for (size_t p = 0; of_b && p < linear.b.size(); p++) {
      add(grad, linear.start[p], linear.b[p].size(0), u, p * rank, rank, grads.b[p].data_ptr(), true);
    }
    kernels.run("mma_outer", dim3(blocks(widest, STRIPE), next), BLOCK, jobs, static_cast<int>(u.size(0)));
  }
};

}  // namespace

// The kernels of this process. The first use of a type and rank compiles them.
SHIM_API LlamaKernels* mcc_llama_kernels() {
  GUARD(nullptr, {
    static CudaKernels kernels;
    kernels.program(at::kFloat);
    return &kernels;
  })
}
