// Kernels of the cpu backend as fractions of what this machine can do, measured in the same run: arithmetic against multiply-adds on registers, passes over
// memory against a copy. Products also against oneDNN on the same shapes.
//
//   bench_kernels [threads] [group]...      groups: gemm grouped attention passes (all without)

#include <omp.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <dnnl.hpp>
#include <functional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <fmt/core.h>

#include "bench/timing.hpp"
#include "optimus/backend/cpu/cpu_backend.hpp"
#include "optimus/ops/attention.hpp"
#include "optimus/ops/linear.hpp"
#include "optimus/ops/loss.hpp"
#include "optimus/ops/misc.hpp"
#include "optimus/ops/moe.hpp"
#include "optimus/ops/norm.hpp"
#include "optimus/ops/update.hpp"
#include "optimus/tensor/arena.hpp"

namespace optimus::bench {
namespace {

struct Machine {
  int threads;
  double f32_peak, bf16_peak, copy_bytes_per_s;
};

/// Numbers of ordinary size, so that no kernel meets infinities.
void fill(View view) {
  for (Index i = 0; i < view.count(); ++i) {
    const float value = static_cast<float>((i * 2654435761U >> 8) % 1024) / 512.0F - 1.0F;
    if (view.dtype() == DType::kF32) view.as<float>()[i] = value;
    else view.as<BFloat16>()[i] = BFloat16(value);
  }
}

class Tensors {
 public:
  explicit Tensors(Index bytes) : arena_(bytes) {}
  View make(DType dtype, Shape shape) {
    const View view = arena_.alloc(dtype, shape);
    if (dtype == DType::kF32 || dtype == DType::kBF16) fill(view);
    return view;
  }

 private:
  Arena arena_;
};

void print_flops(const std::string& name, double seconds, double flops, double peak, double reference_s = 0) {
  fmt::print("{:<58}{:>9.1f} us {:>8.1f} GFLOP/s {:>6.3f}", name, seconds * 1e6, flops / seconds * 1e-9, flops / seconds / peak);
  if (reference_s > 0) fmt::print("   oneDNN {:>6.3f}", flops / reference_s / peak);
  fmt::print("\n");
  std::fflush(stdout);
}

/// Seconds of oneDNN's matmul c[m,n] = a[m,k] b[k,n]; strides as (row, column) steps.
struct Matrix {
  dnnl::memory::dim rows, cols;
  bool is_transposed;
  dnnl::memory::data_type type;
  void* data;
};
double onednn_seconds(const Matrix& a, const Matrix& b, const Matrix& c, bool accumulate) {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  static dnnl::stream stream(engine);
  const auto desc = [](const Matrix& m) {
    const dnnl::memory::dims strides = m.is_transposed ? dnnl::memory::dims{1, m.rows} : dnnl::memory::dims{m.cols, 1};
    return dnnl::memory::desc({m.rows, m.cols}, m.type, strides);
  };
  dnnl::primitive_attr attributes;
  dnnl::post_ops post;
  if (accumulate) post.append_sum(1.0F);
  attributes.set_post_ops(post);
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::matmul::primitive_desc primitive_desc(engine, desc(a), desc(b), desc(c), attributes);
#else
  const dnnl::matmul::primitive_desc primitive_desc(dnnl::matmul::desc(desc(a), desc(b), desc(c)), attributes, engine);
#endif
  const dnnl::matmul matmul(primitive_desc);
  dnnl::memory memory_a(desc(a), engine, a.data), memory_b(desc(b), engine, b.data), memory_c(desc(c), engine, c.data);
  return best_seconds([&] {
    matmul.execute(stream, {{DNNL_ARG_SRC, memory_a}, {DNNL_ARG_WEIGHTS, memory_b}, {DNNL_ARG_DST, memory_c}});
    stream.wait();
  });
}

void bench_gemm(Backend& backend, const Machine& machine) {
  struct Case {
    Index T, I, O;
  };
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    const double peak = dtype == DType::kBF16 ? machine.bf16_peak : machine.f32_peak;
    const auto type = dtype == DType::kBF16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
    for (const Case& c : {Case{2048, 256, 256}, Case{2048, 256, 2048}, Case{512, 256, 256}, Case{2048, 2048, 2048}, Case{128, 2048, 1024},
                          Case{128, 1024, 2048}, Case{1, 2048, 1024}}) {
      Tensors tensors(128 << 20);
      const View x = tensors.make(dtype, {c.T, c.I}), w = tensors.make(dtype, {c.O, c.I}), y = tensors.make(dtype, {c.T, c.O}),
                 dx = tensors.make(dtype, {c.T, c.I}), dw = tensors.make(DType::kF32, {c.O, c.I});
      const double flops = 2.0 * static_cast<double>(c.T * c.I * c.O);
      const auto name = [&](const char* what) { return fmt::format("{} {} T {} I {} O {}", what, dtype_name(dtype), c.T, c.I, c.O); };
      print_flops(name("forward"), best_seconds([&] { ops::linear_forward(backend, x, w, y); }), flops, peak,
                  onednn_seconds({c.T, c.I, false, type, x.data()}, {c.I, c.O, true, type, w.data()}, {c.T, c.O, false, type, y.data()}, false));
      print_flops(name("backward input"), best_seconds([&] { ops::linear_backward_input(backend, y, w, dx, Write::kOverwrite); }), flops, peak,
                  onednn_seconds({c.T, c.O, false, type, y.data()}, {c.O, c.I, false, type, w.data()}, {c.T, c.I, false, type, dx.data()}, false));
      print_flops(name("backward weight"), best_seconds([&] { ops::linear_backward_weight(backend, y, x, dw); }), flops, peak,
                  onednn_seconds({c.O, c.T, true, type, y.data()}, {c.T, c.I, false, type, x.data()},
                                 {c.O, c.I, false, dnnl::memory::data_type::f32, dw.data()}, true));
    }
  }
}

void bench_grouped(Backend& backend, const Machine& machine) {
  struct Case {
    Index experts, rows, D, F;
    bool is_skewed;
  };
  for (const Case& c : {Case{8, 512, 256, 256, false}, Case{8, 512, 256, 256, true}, Case{64, 128, 2048, 1024, false}}) {
    Tensors tensors(Index{1} << 30);
    const Index R = c.experts * c.rows;
    const View x = tensors.make(DType::kBF16, {R, c.D}), w = tensors.make(DType::kBF16, {c.experts, c.F, c.D}), y = tensors.make(DType::kBF16, {R, c.F}),
               dx = tensors.make(DType::kBF16, {R, c.D}), dw = tensors.make(DType::kF32, {c.experts, c.F, c.D}),
               segments = tensors.make(DType::kI64, {c.experts + 1});
    for (Index e = 0; e <= c.experts; ++e) {
      const double even = static_cast<double>(e) / static_cast<double>(c.experts);
      segments.as<std::int64_t>()[e] = static_cast<Index>(static_cast<double>(R) * (c.is_skewed ? even * even : even));
    }
    const double flops = 2.0 * static_cast<double>(R * c.D * c.F);
    const auto name = [&](const char* what) {
      return fmt::format("grouped {} bf16 E {} R {} D {} F {}{}", what, c.experts, R, c.D, c.F, c.is_skewed ? " skewed" : "");
    };
    print_flops(name("forward"), best_seconds([&] { ops::grouped_linear_forward(backend, x, w, segments, y); }), flops, machine.bf16_peak);
    print_flops(name("backward input"), best_seconds([&] { ops::grouped_linear_backward_input(backend, y, w, segments, dx, Write::kOverwrite); }), flops,
                machine.bf16_peak);
    print_flops(name("backward weight"), best_seconds([&] { ops::grouped_linear_backward_weight(backend, y, x, segments, dw); }), flops, machine.bf16_peak);
  }
}

void bench_attention(Backend& backend, const Machine& machine) {
  struct Case {
    Index batch, sequence, heads, kv_heads, head_size;
  };
  for (const DType dtype : {DType::kBF16, DType::kF32}) {
    for (const Case& c : {Case{8, 256, 4, 4, 64}, Case{1, 2048, 4, 4, 128}, Case{1, 4096, 2, 2, 64}}) {
      Tensors tensors(128 << 20);
      const AttentionShape shape{c.batch, c.sequence, c.sequence, c.heads, c.kv_heads, c.head_size};
      const Index T = c.batch * c.sequence, width = c.heads * c.head_size, kv_width = c.kv_heads * c.head_size;
      const View q = tensors.make(dtype, {T, width}), k = tensors.make(dtype, {T, kv_width}), v = tensors.make(dtype, {T, kv_width}),
                 o = tensors.make(dtype, {T, width}), d_o = tensors.make(dtype, {T, width}), dq = tensors.make(dtype, {T, width}),
                 dk = tensors.make(dtype, {T, kv_width}), dv = tensors.make(dtype, {T, kv_width}),
                 lse = tensors.make(DType::kF32, {c.batch, c.heads, c.sequence});
      // Only the lower triangle counts: half of two (forward) or five (backward) products.
      const double product = static_cast<double>(c.batch * c.heads * c.sequence * (c.sequence + 1) * c.head_size),
                   peak = dtype == DType::kBF16 ? machine.bf16_peak : machine.f32_peak;
      const auto name = [&](const char* what) {
        return fmt::format("attention {} {} B {} S {} H {} A {}", what, dtype_name(dtype), c.batch, c.sequence, c.heads, c.head_size);
      };
      print_flops(name("forward"), best_seconds([&] { ops::attention_forward(backend, shape, q, k, v, {}, o, lse); }), 2 * product, peak);
      print_flops(name("backward"), best_seconds([&] { ops::attention_backward(backend, shape, d_o, {q, k, v, {}, o, lse}, {dq, dk, dv}); }), 5 * product,
                  peak);
    }
  }
}

void bench_passes(Backend& backend, const Machine& machine) {
  struct Case {
    Index T, D, V, E, K;
  };
  for (const Case& c : {Case{2048, 256, 2048, 8, 2}, Case{8192, 2048, 8192, 64, 8}}) {
    Tensors tensors(Index{3} << 30);
    const DType bf16 = DType::kBF16, f32 = DType::kF32;
    const auto print = [&](const char* what, double bytes, const std::function<void()>& body) {
      const double seconds = best_seconds(body);
      fmt::print("{:<58}{:>9.1f} us {:>8.1f} GB/s    {:>6.3f} of copy\n", fmt::format("{} T {} D {}", what, c.T, c.D), seconds * 1e6, bytes / seconds * 1e-9,
                 bytes / seconds / machine.copy_bytes_per_s);
      std::fflush(stdout);
    };
    const auto count = static_cast<double>(c.T * c.D);
    const View x = tensors.make(bf16, {c.T, c.D}), y = tensors.make(bf16, {c.T, c.D}), z = tensors.make(bf16, {c.T, c.D}), u = tensors.make(bf16, {c.T, c.D}),
               gain = tensors.make(bf16, {c.D}), rstd = tensors.make(f32, {c.T}), dgain = tensors.make(f32, {c.D});
    print("rms_norm forward", 4 * count, [&] { ops::rms_norm_forward(backend, x, gain, 1e-5, y, rstd); });
    print("rms_norm backward", 6 * count, [&] { ops::rms_norm_backward(backend, z, x, gain, rstd, y, Write::kOverwrite, dgain); });
    print("add", 6 * count, [&] { ops::add(backend, x, y, z); });
    print("swiglu forward", 6 * count, [&] { ops::swiglu_forward(backend, x, y, {}, z); });
    print("swiglu backward", 10 * count, [&] { ops::swiglu_backward(backend, x, y, z, u, z); });
    const View positions = tensors.make(DType::kI32, {c.T}), cos = tensors.make(f32, {c.T, 32}), sin = tensors.make(f32, {c.T, 32});
    for (Index t = 0; t < c.T; ++t) positions.as<std::int32_t>()[t] = static_cast<std::int32_t>(t % 2048);
    print("rope", 4 * count, [&] { ops::rope(backend, x, positions, cos, sin, 64, false); });
    fill(x);
    const View logits = tensors.make(bf16, {c.T, c.V}), labels = tensors.make(DType::kI32, {c.T}), lse = tensors.make(f32, {c.T}),
               max = tensors.make(f32, {c.T}), sum = tensors.make(f32, {c.T}), target = tensors.make(f32, {c.T});
    for (Index t = 0; t < c.T; ++t) labels.as<std::int32_t>()[t] = static_cast<std::int32_t>(t * 7 % c.V);
    print("cross-entropy statistics", 2.0 * static_cast<double>(c.T * c.V),
          [&] { ops::cross_entropy_statistics(backend, logits, labels, 0, {max, sum, target}); });
    print("cross-entropy gradient", 4.0 * static_cast<double>(c.T * c.V), [&] { ops::cross_entropy_gradient(backend, logits, labels, 0, lse, 1e-3, logits); });
    const View dw = tensors.make(f32, {c.V, c.D});
    print("embedding backward", 10 * count, [&] { ops::embedding_backward(backend, x, labels, dw); });
    const View router = tensors.make(bf16, {c.E, c.D}), router_logits = tensors.make(f32, {c.T, c.E}), p = tensors.make(f32, {c.T, c.E}),
               index = tensors.make(DType::kI32, {c.T, c.K}), weight = tensors.make(f32, {c.T, c.K}), d_router = tensors.make(f32, {c.E, c.D});
    print("router logits forward", 2 * count, [&] { ops::router_logits_forward(backend, x, router, router_logits); });
    print("router softmax", 8.0 * static_cast<double>(c.T * c.E), [&] { ops::router_softmax(backend, router_logits, p, lse); });
    print("router top-k", 4.0 * static_cast<double>(c.T * c.E), [&] { ops::router_top_k(backend, p, index); });
    print("router logits backward", 6 * count, [&] { ops::router_logits_backward(backend, router_logits, x, router, y, d_router); });
    const Index R = c.T * c.K;
    const DispatchPlan plan{tensors.make(DType::kI64, {c.E + 1}), tensors.make(DType::kI32, {R}), tensors.make(DType::kI64, {c.T + 1}),
                            tensors.make(DType::kI32, {R}), tensors.make(DType::kI32, {R})};
    print("build_dispatch", 20.0 * static_cast<double>(R), [&] { ops::build_dispatch(backend, index, 0, plan); });
    const View x_RD = tensors.make(bf16, {R, c.D});
    ops::router_weights(backend, p, index, false, weight);
    print("gather_rows", 4.0 * static_cast<double>(R * c.D), [&] { ops::gather_rows(backend, x, plan, x_RD); });
    print("combine_forward", 2.0 * static_cast<double>((R + c.T) * c.D), [&] { ops::combine_forward(backend, x_RD, weight, plan, y); });
    const View master = tensors.make(f32, {c.T * c.D}), m = tensors.make(f32, {c.T * c.D}), v = tensors.make(f32, {c.T * c.D}),
               g = tensors.make(f32, {c.T * c.D});
    AdamWStep step{};
    step.lr = 1e-9;
    std::memset(v.data(), 0, static_cast<std::size_t>(v.bytes()));
    print("adamw", 30 * count, [&] { ops::adamw_update(backend, step, g, master, m, v, x.reshaped({c.T * c.D})); });
    double total = 0;
    print("sum_squares", 4 * count, [&] { total += ops::sum_squares(backend, g); });
    if (!(total > 0)) std::abort();
  }
}

double copy_bytes_per_s(Backend& backend) {
  Tensors tensors(512 << 20);
  const View from = tensors.make(DType::kF32, {Index{32} << 20}), to = tensors.make(DType::kF32, {Index{32} << 20});
  return 2.0 * static_cast<double>(from.bytes()) / best_seconds([&] { ops::copy(backend, from, to); });
}

}  // namespace
}  // namespace optimus::bench

int main(int argc, char** argv) {
  using namespace optimus;
  using namespace optimus::bench;
  const int threads = argc > 1 ? std::atoi(argv[1]) : omp_get_max_threads();
  const std::set<std::string> groups(argv + std::min(argc, 2), argv + argc);
  omp_set_num_threads(threads);  // for oneDNN
  const auto backend = make_cpu_backend(threads);
  const Machine machine{threads, measure_peak(DType::kF32, threads), measure_peak(DType::kBF16, threads), copy_bytes_per_s(*backend)};
  fmt::print("{}: f32 {:.1f} GFLOP/s, bf16 {:.1f} GFLOP/s, copy {:.1f} GB/s\n", backend->description(), machine.f32_peak * 1e-9, machine.bf16_peak * 1e-9,
             machine.copy_bytes_per_s * 1e-9);
  const auto is_wanted = [&](const char* group) { return groups.empty() || groups.contains(group); };
  if (is_wanted("gemm")) bench_gemm(*backend, machine);
  if (is_wanted("grouped")) bench_grouped(*backend, machine);
  if (is_wanted("attention")) bench_attention(*backend, machine);
  if (is_wanted("passes")) bench_passes(*backend, machine);
}
