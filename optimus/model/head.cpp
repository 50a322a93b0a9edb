#include "optimus/model/head.hpp"

#include <algorithm>

#include "optimus/ops/linear.hpp"
#include "optimus/ops/loss.hpp"
#include "optimus/ops/misc.hpp"

namespace optimus {
namespace {

/// Temporaries of one block of rows.
struct Block {
  View logits_TV, dlogits_TV;  ///< the same memory if their types are
  LossKernels::SoftmaxStatistics statistics;
  View loss_T, lse_T;
};

Block allocate_block(const ModelContext& c, Scratch& scratch, Index rows) {
  const auto column = [&] { return scratch.alloc(c.wide, {rows}); };
  const View logits_TV = scratch.alloc(c.wide, {rows, c.model().vocab_size});
  const View dlogits_TV = c.dtype() == c.wide ? logits_TV : scratch.alloc(c.dtype(), {rows, c.model().vocab_size});
  return {.logits_TV = logits_TV, .dlogits_TV = dlogits_TV, .statistics = {column(), column(), column()}, .loss_T = column(), .lse_T = column()};
}

Block first_rows(const Block& b, Index n) {
  return {.logits_TV = b.logits_TV.rows(0, n),
          .dlogits_TV = b.dlogits_TV.rows(0, n),
          .statistics = {b.statistics.max_T.rows(0, n), b.statistics.sum_T.rows(0, n), b.statistics.target_T.rows(0, n)},
          .loss_T = b.loss_T.rows(0, n),
          .lse_T = b.lse_T.rows(0, n)};
}

double sum_on_host(const ModelContext& c, const View& values) {
  double sum = 0;
  if (c.is_planning) return sum;
  if (values.dtype() == DType::kF64) {
    for (const double value : values.span<double>()) sum += value;
  } else {
    for (const float value : values.span<float>()) sum += static_cast<double>(value);
  }
  return sum;
}

}  // namespace

Index logits_block_rows(Index rows, Index vocab_size) {
  // About 16 MiB of f32 logits, in multiples of 64 rows, and never all rows of a large micro-batch at once.
  const Index by_size = round_up(std::max<Index>(1, (Index{1} << 22) / vocab_size), 64);
  const Index by_rows = std::max<Index>(64, round_up(ceil_div(rows, 2), 64));
  return std::max<Index>(1, std::min({rows, by_size, by_rows, Index{1024}}));
}

double head_forward_backward(const ModelContext& c, const HeadWeights& w, const HeadCall& call, const HeadWeights& dw) {
  Scratch scratch(c.arena);
  const Index rows = c.rows(), block_rows = logits_block_rows(rows, c.model().vocab_size);
  const bool has_backward = call.dx_TD.exists();
  const NormSaved norm = allocate_norm(c.temporary());
  norm_forward(c, w.final_norm_D, call.x_TD, norm);
  if (call.probe_hidden) call.probe_hidden(norm.y_TD);

  const View dn_TD = has_backward ? scratch.like(norm.y_TD) : View{};
  const Block memory = allocate_block(c, scratch, block_rows);
  double loss = 0;
  for (Index begin = 0; begin < rows; begin += block_rows) {
    const Index end = std::min(rows, begin + block_rows);
    const Block b = first_rows(memory, end - begin);
    const View n_bD = norm.y_TD.rows(begin, end);
    const ConstView labels_b = call.labels_T.rows(begin, end);
    ops::linear_forward(c.backend, n_bD, w.w_head_VD, b.logits_TV);
    if (call.sink != nullptr && *call.sink) (*call.sink)(begin, b.logits_TV);
    ops::cross_entropy_statistics(c.backend, b.logits_TV, labels_b, 0, b.statistics);
    ops::cross_entropy_loss(c.backend, b.statistics, labels_b, b.loss_T, b.lse_T);
    loss += sum_on_host(c, b.loss_T);
    if (!has_backward) continue;
    ops::cross_entropy_gradient(c.backend, b.logits_TV, labels_b, 0, b.lse_T, call.scale, b.dlogits_TV);
    ops::linear_backward_input(c.backend, b.dlogits_TV, w.w_head_VD, dn_TD.rows(begin, end), Write::kOverwrite);
    ops::linear_backward_weight(c.backend, b.dlogits_TV, n_bD, dw.w_head_VD);
  }
  if (has_backward) {
    ops::fill_zero(c.backend, call.dx_TD);
    norm_backward(c, w.final_norm_D, call.x_TD, norm, dn_TD, call.dx_TD, dw.final_norm_D);
  }
  return loss;
}

}  // namespace optimus
