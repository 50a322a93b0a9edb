#pragma once
// The router: which K experts a row goes to, with which weights, and the gradient of that.

#include <functional>

#include "optimus/model/moe/context.hpp"

namespace optimus {

/// What the balancing loss needs of a layer, over G groups of equally many consecutive rows.
struct RoutingStatistics {
  View counts_GE;  ///< i64: choices of each expert in each group
  View sums_GE;    ///< f64: sum of p over each group
};

/// The choice made in forward. Recomputation reads it, never makes it again, so that a tie can not fall the other way in backward.
struct Routing {
  View p_TE;       ///< softmax of the logits over all experts; as lse and weight of the type MoeContext::wide
  View lse_T;      ///< log-sum-exp of the logits
  View index_TK;   ///< i32 chosen experts, largest probability first
  View weight_TK;  ///< what their outputs are multiplied with
  RoutingStatistics statistics;
};

/// Memory for the routing of T rows; the statistics outlive it.
[[nodiscard]] Routing allocate_routing(const MoeContext& c, Index rows, const RoutingStatistics& statistics);

/// Told the logits [T, E], of the type MoeContext::wide, as they pass.
using LogitsProbe = std::function<void(ConstView logits_TE)>;

///   logits = x Wᵀ;   p = softmax(logits);   index = the K largest;   weight = p[index], divided by their sum if norm_topk_prob
///
/// With forced uniform routing: index[t,j] = (r * T + t + j) mod E on EP rank r, and weight = the soft-max over those K logits.
/// Writes:   all of `routing`, overwritten.
void router_forward(const MoeContext& c, ConstView x_TD, ConstView w_ED, const Routing& routing, const LogitsProbe& probe);

/// What the losses on the routing add to its gradient.
struct RoutingLossGradient {
  ConstView dp_GE;     ///< of the balancing loss with respect to p; does not exist: none
  double z_scale = 0;  ///< of the z-loss: multiplies 2 * lse * p
};

/// One backward call: dx_TD and dw_ED are accumulated; under tensor parallelism with this rank's share of the rows.
struct RouterBackward {
  ConstView dweight_TK;
  RoutingLossGradient losses;
  View dx_TD, dw_ED;
};
void router_backward(const MoeContext& c, ConstView x_TD, ConstView w_ED, const Routing& routing, const RouterBackward& g);

}  // namespace optimus
