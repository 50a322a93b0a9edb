#include "optimus/model/moe/moe_layer.hpp"

namespace optimus {

void moe_forward(const MoeContext& c, const Experts& experts, const MoeWeights& w, ConstView x_TD, const MoeSaved& s, View y_TD, const LogitsProbe& probe) {
  router_forward(c, x_TD, w.w_router_ED, s.routing, probe);
  experts.forward(c, w.experts, x_TD, s.routing, s.experts, y_TD);
}

void moe_backward(const MoeContext& c, const Experts& experts, const MoeWeights& w, ConstView x_TD, const MoeSaved& s, const MoeGradient& g) {
  Scratch scratch(c.arena);
  const View dweight_TK = scratch.like(s.routing.weight_TK);
  experts.backward(c, w.experts, x_TD, s.routing, s.experts, {.dy_TD = g.dy_TD, .dx_TD = g.dx_TD, .dweight_TK = dweight_TK, .dw = g.dw.experts});
  // Each TP rank has a part of every expert's width, and so of <expert output, output gradient>.
  if (c.tp != nullptr) c.tp->all_reduce(dweight_TK, Reduce::kSum);
  router_backward(c, x_TD, w.w_router_ED, s.routing, {.dweight_TK = dweight_TK, .losses = g.losses, .dx_TD = g.dx_TD, .dw_ED = g.dw.w_router_ED});
}

}  // namespace optimus
