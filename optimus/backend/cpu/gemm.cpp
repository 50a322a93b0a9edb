// Products of Linear layers: one list of blocks for all experts, largest first, next block to the next free thread.

#include <algorithm>

#include "optimus/backend/cpu/backend_impl.hpp"
#include "optimus/backend/cpu/parallel.hpp"

namespace optimus::cpu {
namespace {

constexpr Index kTasksPerThread = 4;    // enough to even out threads that are held up
constexpr Index kMinRowsPerTask = 128;  // fewer, and packing the other side costs too much

const std::int64_t* segments_of(ConstView segments_e) { return segments_e.as<std::int64_t>(); }

}  // namespace

void CpuBackend::push_product(Product kind, ConstView tall, ConstView other, View out, bool accumulate) {
  GemmTask p{};
  p.c = out.data();
  p.is_c_bf16 = out.dtype() == DType::kBF16;
  p.accumulate = accumulate;
  p.m = out.size(0);
  p.n = p.ldc = out.size(1);
  switch (kind) {
    case Product::kForward:  // y[t,o] = sum_i x[t,i] w[o,i]
      p.k = tall.size(1);
      p.a = {tall.data(), tall.size(1), true};
      p.b = {other.data(), other.size(1), true};
      break;
    case Product::kBackwardInput:  // dx[t,i] = sum_o dy[t,o] w[o,i]
      p.k = tall.size(1);
      p.a = {tall.data(), tall.size(1), true};
      p.b = {other.data(), other.size(1), false};
      break;
    case Product::kBackwardWeight:  // dw[o,i] = sum_t dy[t,o] x[t,i]
      p.k = tall.size(0);
      p.a = {tall.data(), tall.size(1), false};
      p.b = {other.data(), other.size(1), false};
      break;
  }
  const bool changes_nothing = p.m == 0 || p.n == 0 || (p.k == 0 && accumulate);
  if (!changes_nothing) products_.push_back(p);
}

void CpuBackend::grouped(Product kind, ConstView a, ConstView b, ConstView segments_e, View out, bool accumulate) {
  const auto* segments = segments_of(segments_e);
  for (Index e = 0; e + 1 < segments_e.size(0); ++e) {
    const Index begin = segments[e], end = segments[e + 1];
    if (begin == end) continue;
    if (kind == Product::kBackwardWeight) push_product(kind, a.rows(begin, end), b.rows(begin, end), out[e], accumulate);
    else push_product(kind, a.rows(begin, end), b[e], out.rows(begin, end), accumulate);
  }
  run_products(element(a));
}

void CpuBackend::split_product(const GemmTask& product, Index area_per_task, int combination) {
  const GemmTable& gemm = kernels_.gemm;
  Index cols = std::min(product.n, gemm.max_cols);
  Index rows = std::clamp(area_per_task / cols, std::min(kMinRowsPerTask, product.m), product.m);
  if (product.is_c_bf16 && product.k > gemm.max_depth[combination]) rows = std::min(rows, gemm.max_rows_deep);
  if (rows == product.m && product.m * cols > area_per_task) cols = std::clamp<Index>(round_up(area_per_task / rows, 64), std::min<Index>(64, cols), cols);
  const Index row_blocks = ceil_div(product.m, rows), element_bytes = product.is_c_bf16 ? 2 : 4, side_bytes_a = combination == 1 ? 2 : 4,
              side_bytes_b = combination == 0 ? 4 : 2;
  const auto shifted = [](const GemmSide& side, Index row, Index bytes) {
    return GemmSide{static_cast<const std::byte*>(side.data) + row * (side.k_contiguous ? side.ld : 1) * bytes, side.ld, side.k_contiguous};
  };
  for (Index n = 0; n < product.n; n += cols) {
    for (Index block = 0; block < row_blocks; ++block) {
      const Index begin = block * product.m / row_blocks, end = (block + 1) * product.m / row_blocks;
      GemmTask task = product;
      task.m = end - begin;
      task.n = std::min(cols, product.n - n);
      task.a = shifted(product.a, begin, side_bytes_a);
      task.b = shifted(product.b, n, side_bytes_b);
      task.c = static_cast<std::byte*>(product.c) + (begin * product.ldc + n) * element_bytes;
      tasks_.push_back(task);
    }
  }
}

void CpuBackend::run_products(int combination) {
  double work = 0;
  for (const GemmTask& p : products_) work += static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(std::max<Index>(p.k, 1));
  const double work_per_task = threads_ == 1 ? work : work / static_cast<double>(kTasksPerThread * threads_);
  for (const GemmTask& p : products_) split_product(p, static_cast<Index>(work_per_task / static_cast<double>(std::max<Index>(p.k, 1))) + 1, combination);
  const auto size = [](const GemmTask& t) { return t.m * t.n * t.k; };
  std::sort(tasks_.begin(), tasks_.end(), [&](const GemmTask& a, const GemmTask& b) { return size(a) > size(b); });
  parallel_items(threads_, static_cast<Index>(tasks_.size()),
                 [&](Index i, int thread) { kernels_.gemm.run[combination](tasks_[static_cast<std::size_t>(i)], thread_scratch(thread)); });
  products_.clear();
  tasks_.clear();
}

void CpuBackend::linear_forward(ConstView x_TI, ConstView w_OI, View y_TO) {
  push_product(Product::kForward, x_TI, w_OI, y_TO, false);
  run_products(element(x_TI));
}

void CpuBackend::linear_backward_input(ConstView dy_TO, ConstView w_OI, View dx_TI, Write write) {
  push_product(Product::kBackwardInput, dy_TO, w_OI, dx_TI, write == Write::kAccumulate);
  run_products(element(dy_TO));
}

void CpuBackend::linear_backward_weight(ConstView dy_TO, ConstView x_TI, View dw_OI) {
  push_product(Product::kBackwardWeight, dy_TO, x_TI, dw_OI, true);
  run_products(element(dy_TO));
}

void CpuBackend::grouped_linear_forward(ConstView x_RI, ConstView w_eOI, ConstView segments_e, View y_RO) {
  grouped(Product::kForward, x_RI, w_eOI, segments_e, y_RO, false);
}

void CpuBackend::grouped_linear_backward_input(ConstView dy_RO, ConstView w_eOI, ConstView segments_e, View dx_RI, Write write) {
  grouped(Product::kBackwardInput, dy_RO, w_eOI, segments_e, dx_RI, write == Write::kAccumulate);
}

void CpuBackend::grouped_linear_backward_weight(ConstView dy_RO, ConstView x_RI, ConstView segments_e, View dw_eOI) {
  grouped(Product::kBackwardWeight, dy_RO, x_RI, segments_e, dw_eOI, true);
}

void CpuBackend::router_logits_forward(ConstView x_TD, ConstView w_ED, View logits_TE) { linear_forward(x_TD, w_ED, logits_TE); }

void CpuBackend::router_logits_backward(ConstView dlogits_TE, ConstView x_TD, ConstView w_ED, View dx_TD, View dw_ED) {
  const int combination = element(x_TD) == 0 ? 0 : 2;
  push_product(Product::kBackwardInput, dlogits_TE, w_ED, dx_TD, true);
  run_products(combination);
  push_product(Product::kBackwardWeight, dlogits_TE, x_TD, dw_ED, true);
  run_products(combination);
}

}  // namespace optimus::cpu
