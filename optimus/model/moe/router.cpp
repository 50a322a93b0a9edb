#include "optimus/model/moe/router.hpp"

#include "optimus/comm/placement.hpp"
#include "optimus/ops/moe.hpp"

namespace optimus {
namespace {
/// Forced uniform routing weighs by the soft-max over the chosen logits alone, which is what division by the sum gives.
bool is_normalised(const MoeContext& c) { return c.shape.norm_topk_prob || c.config.force_uniform_routing; }
/// The rows whose gradients this rank makes, of those that all TP ranks have routed.
IndexRange own_rows(const MoeContext& c, Index rows) {
  return c.tp == nullptr ? IndexRange{.begin = 0, .count = rows} : uneven_part(rows, c.tp->size(), c.tp->rank());
}
}  // namespace

Routing allocate_routing(const MoeContext& c, Index rows, const RoutingStatistics& statistics) {
  const Index experts = c.shape.num_experts, chosen = c.shape.top_k;
  return {.p_TE = c.kept->alloc(c.wide, {rows, experts}),
          .lse_T = c.kept->alloc(c.wide, {rows}),
          .index_TK = c.kept->alloc(DType::kI32, {rows, chosen}),
          .weight_TK = c.kept->alloc(c.wide, {rows, chosen}),
          .statistics = statistics};
}

void router_forward(const MoeContext& c, ConstView x_TD, ConstView w_ED, const Routing& routing, const LogitsProbe& probe) {
  Scratch scratch(c.arena);
  const View logits_TE = scratch.like(routing.p_TE);

  ops::router_logits_forward(c.backend, x_TD, w_ED, logits_TE);
  ops::router_softmax(c.backend, logits_TE, routing.p_TE, routing.lse_T);
  if (c.config.force_uniform_routing) {
    // Rows are counted through the ranks, or every rank would start with expert 0.
    const Index first_row = c.ep == nullptr ? 0 : c.ep->rank() * x_TD.size(0);
    ops::router_uniform(c.backend, first_row, c.shape.num_experts, routing.index_TK);
  } else {
    ops::router_top_k(c.backend, routing.p_TE, routing.index_TK);
  }
  ops::router_weights(c.backend, routing.p_TE, routing.index_TK, is_normalised(c), routing.weight_TK);
  ops::expert_counts(c.backend, routing.index_TK, routing.statistics.counts_GE);
  ops::column_sums(c.backend, routing.p_TE, routing.statistics.sums_GE);
  if (probe) probe(logits_TE);
}

void router_backward(const MoeContext& c, ConstView x_TD, ConstView w_ED, const Routing& routing, const RouterBackward& g) {
  Scratch scratch(c.arena);
  const View dlogits_TE = scratch.like(routing.p_TE);

  const MoeKernels::RouterGradient gradient{.p_TE = routing.p_TE,
                                            .lse_T = routing.lse_T,
                                            .index_TK = routing.index_TK,
                                            .weight_TK = routing.weight_TK,
                                            .dweight_TK = g.dweight_TK,
                                            .dp_GE = g.losses.dp_GE,
                                            .z_scale = g.losses.z_scale,
                                            .normalise = is_normalised(c)};
  ops::router_backward(c.backend, gradient, dlogits_TE);
  const IndexRange own = own_rows(c, x_TD.size(0));
  const Index end = own.begin + own.count;
  ops::router_logits_backward(c.backend, dlogits_TE.rows(own.begin, end), x_TD.rows(own.begin, end), w_ED, g.dx_TD.rows(own.begin, end), g.dw_ED);
}

}  // namespace optimus
