#pragma once
// One mixture-of-experts layer: router, experts, weighted sum.
//
//   y[t] = sum_k weight[t,k] * expert_{index[t,k]}(x[t])
//
// Under tensor parallelism every rank routes all rows, alike to the last bit, and has a part of each expert's width F: y is its part of a sum over the ranks, and
// so is dx. The router's own gradients are made for a share of the rows on each rank.

#include "optimus/model/moe/experts.hpp"

namespace optimus {

/// Weights, or their gradients.
struct MoeWeights {
  View w_router_ED;
  ExpertWeights experts;
};

/// The routing is always kept; `experts` may be recomputed from it and the layer's input.
struct MoeSaved {
  Routing routing;
  ExpertsSaved experts;
};

/// Writes y_TD and `s`.   Collective: over c.ep, and moe_backward() over c.tp too.
void moe_forward(const MoeContext& c, const Experts& experts, const MoeWeights& w, ConstView x_TD, const MoeSaved& s, View y_TD, const LogitsProbe& probe);

/// One backward call: dx_TD is overwritten, dw accumulated.
struct MoeGradient {
  ConstView dy_TD;
  RoutingLossGradient losses;
  View dx_TD;
  MoeWeights dw;
};
void moe_backward(const MoeContext& c, const Experts& experts, const MoeWeights& w, ConstView x_TD, const MoeSaved& s, const MoeGradient& g);

}  // namespace optimus
