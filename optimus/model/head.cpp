#include "optimus/model/head.hpp"

#include <algorithm>

#include "optimus/model/tensor_parallel.hpp"
#include "optimus/ops/linear.hpp"
#include "optimus/ops/loss.hpp"
#include "optimus/ops/misc.hpp"

namespace optimus {
namespace {

using Statistics = LossKernels::SoftmaxStatistics;

/// Temporaries of one block of rows.
struct Block {
  View logits_TV, dlogits_TV;  ///< of this rank's part of the vocabulary; the same memory if their types are
  View statistics_M3T;         ///< of the parts of all ranks
  Statistics whole;            ///< of all of them together
  View loss_T, lse_T;
};

Index num_parts(const ModelContext& c) { return c.tp == nullptr ? 1 : c.tp->size(); }
Index own_part(const ModelContext& c) { return c.tp == nullptr ? 0 : c.tp->rank(); }

Statistics as_statistics(View rows_3T) { return {.max_T = rows_3T[0], .sum_T = rows_3T[1], .target_T = rows_3T[2]}; }

Block allocate_block(const ModelContext& c, Scratch& scratch, Index rows) {
  const Shape logits{rows, c.vocabulary().count};
  Block b;
  b.logits_TV = scratch.alloc(c.wide, logits);
  b.dlogits_TV = c.dtype() == c.wide ? b.logits_TV : scratch.alloc(c.dtype(), logits);
  b.statistics_M3T = scratch.alloc(c.wide, {num_parts(c), 3, rows});
  b.whole = as_statistics(c.tp == nullptr ? b.statistics_M3T[0] : scratch.alloc(c.wide, {3, rows}));
  b.loss_T = scratch.alloc(c.wide, {rows});
  b.lse_T = scratch.alloc(c.wide, {rows});
  return b;
}

Block first_rows(const Block& b, Index n) {
  const Shape statistics{b.statistics_M3T.size(0), 3, n};
  Block first{.logits_TV = b.logits_TV.rows(0, n),
              .dlogits_TV = b.dlogits_TV.rows(0, n),
              .statistics_M3T = View(b.statistics_M3T.data(), b.statistics_M3T.dtype(), statistics),
              .whole = {b.whole.max_T.rows(0, n), b.whole.sum_T.rows(0, n), b.whole.target_T.rows(0, n)},
              .loss_T = b.loss_T.rows(0, n),
              .lse_T = b.lse_T.rows(0, n)};
  if (statistics[0] == 1) first.whole = as_statistics(first.statistics_M3T[0]);
  return first;
}

/// Fills `whole` of the block: of the columns of all ranks.
void softmax_statistics(const ModelContext& c, const Block& b, ConstView labels_T) {
  const View own_3T = b.statistics_M3T[own_part(c)];
  ops::cross_entropy_statistics(c.backend, b.logits_TV, labels_T, c.vocabulary().begin, as_statistics(own_3T));
  if (c.tp == nullptr) return;
  c.tp->all_gather(own_3T, b.statistics_M3T);
  ops::combine_softmax_statistics(c.backend, b.statistics_M3T, b.whole);
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
  // Ranks meet in every block, so all have as many rows in it, whoever has the longer part of the vocabulary.
  const Index rows = c.rows(), block_rows = logits_block_rows(rows, ceil_div(c.model().vocab_size, num_parts(c)));
  const bool has_backward = call.dx_lD.exists();
  const NormSaved norm = allocate_norm(c.temporary());
  norm_forward(c, w.final_norm_D, call.x_lD, norm);
  if (call.probe_hidden) call.probe_hidden(norm.y_lD);

  const ConstView n_TD = gather_rows(c, norm.y_lD);
  const View dn_lD = has_backward ? scratch.like(norm.y_lD) : View{}, dn_TD = has_backward ? partial_rows(c, dn_lD) : View{};
  const Block memory = allocate_block(c, scratch, block_rows);
  double loss = 0;
  for (Index begin = 0; begin < rows; begin += block_rows) {
    const Index end = std::min(rows, begin + block_rows);
    const Block b = first_rows(memory, end - begin);
    const ConstView n_bD = n_TD.rows(begin, end), labels_b = call.labels_T.rows(begin, end);
    ops::linear_forward(c.backend, n_bD, w.w_head_VD, b.logits_TV);
    if (call.sink != nullptr && *call.sink) (*call.sink)(begin, b.logits_TV);
    softmax_statistics(c, b, labels_b);
    ops::cross_entropy_loss(c.backend, b.whole, labels_b, b.loss_T, b.lse_T);
    loss += sum_on_host(c, b.loss_T);
    if (!has_backward) continue;
    ops::cross_entropy_gradient(c.backend, b.logits_TV, labels_b, c.vocabulary().begin, b.lse_T, call.scale, b.dlogits_TV);
    ops::linear_backward_input(c.backend, b.dlogits_TV, w.w_head_VD, dn_TD.rows(begin, end), Write::kOverwrite);
    ops::linear_backward_weight(c.backend, b.dlogits_TV, n_bD, dw.w_head_VD);
  }
  if (has_backward) {
    sum_rows(c, dn_TD, dn_lD);
    ops::fill_zero(c.backend, call.dx_lD);
    norm_backward(c, w.final_norm_D, call.x_lD, norm, dn_lD, call.dx_lD, dw.final_norm_D);
  }
  return loss;
}

}  // namespace optimus
