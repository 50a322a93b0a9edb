#include "optimus/model/mlp.hpp"

#include "optimus/ops/linear.hpp"
#include "optimus/ops/moe.hpp"

namespace optimus {

MlpSaved allocate_mlp(const ModelContext& c) { return {.gate_TF = c.keep_rows(c.intermediate_size()), .up_TF = c.keep_rows(c.intermediate_size())}; }

void mlp_forward(const ModelContext& c, const MlpWeights& w, ConstView n_TD, const MlpSaved& s, View y_TD) {
  ops::linear_forward(c.backend, n_TD, w.w_gate_FD, s.gate_TF);
  c.poll();
  ops::linear_forward(c.backend, n_TD, w.w_up_FD, s.up_TF);
  c.poll();
  if (!y_TD.exists()) return;
  Scratch scratch(c.arena);
  const View act_TF = scratch.like(s.gate_TF);
  ops::swiglu_forward(c.backend, s.gate_TF, s.up_TF, {}, act_TF);
  ops::linear_forward(c.backend, act_TF, w.w_down_DF, y_TD);
}

void mlp_backward(const ModelContext& c, const MlpWeights& w, ConstView n_TD, const MlpSaved& s, ConstView dy_TD, View dn_TD, const MlpWeights& dw) {
  Scratch scratch(c.arena);
  const View act_TF = c.operand_like(s.gate_TF);
  ops::swiglu_forward(c.backend, s.gate_TF, s.up_TF, {}, act_TF);
  c.weight_gradient({.dy = dy_TD, .x = act_TF, .dw = dw.w_down_DF, .segments_e = {}});
  c.poll();

  // In place, where each has been used up.
  const View dact_TF = c.deferred != nullptr ? scratch.like(act_TF) : act_TF, dgate_TF = s.gate_TF, dup_TF = s.up_TF;
  ops::linear_backward_input(c.backend, dy_TD, w.w_down_DF, dact_TF, Write::kOverwrite);
  c.poll();
  ops::swiglu_backward(c.backend, dact_TF, s.gate_TF, s.up_TF, dgate_TF, dup_TF);
  c.weight_gradient({.dy = dgate_TF, .x = n_TD, .dw = dw.w_gate_FD, .segments_e = {}});
  c.poll();
  c.weight_gradient({.dy = dup_TF, .x = n_TD, .dw = dw.w_up_FD, .segments_e = {}});
  c.poll();
  ops::linear_backward_input(c.backend, dgate_TF, w.w_gate_FD, dn_TD, Write::kOverwrite);
  c.poll();
  ops::linear_backward_input(c.backend, dup_TF, w.w_up_FD, dn_TD, Write::kAccumulate);
}

}  // namespace optimus
