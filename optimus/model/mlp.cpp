#include "optimus/model/mlp.hpp"

#include "optimus/ops/linear.hpp"
#include "optimus/ops/moe.hpp"

namespace optimus {

MlpSaved allocate_mlp(const ModelContext& c) { return {.gate_TF = c.keep_rows(c.intermediate_size()), .up_TF = c.keep_rows(c.intermediate_size())}; }

void mlp_forward(const ModelContext& c, const MlpWeights& w, ConstView n_TD, const MlpSaved& s, View y_TD) {
  ops::linear_forward(c.backend, n_TD, w.w_gate_FD, s.gate_TF);
  ops::linear_forward(c.backend, n_TD, w.w_up_FD, s.up_TF);
  if (!y_TD.exists()) return;
  Scratch scratch(c.arena);
  const View act_TF = scratch.like(s.gate_TF);
  ops::swiglu_forward(c.backend, s.gate_TF, s.up_TF, {}, act_TF);
  ops::linear_forward(c.backend, act_TF, w.w_down_DF, y_TD);
}

void mlp_backward(const ModelContext& c, const MlpWeights& w, ConstView n_TD, const MlpSaved& s, ConstView dy_TD, View dn_TD, const MlpWeights& dw) {
  Scratch scratch(c.arena);
  const View act_TF = scratch.like(s.gate_TF);
  ops::swiglu_forward(c.backend, s.gate_TF, s.up_TF, {}, act_TF);
  ops::linear_backward_weight(c.backend, dy_TD, act_TF, dw.w_down_DF);

  const View dact_TF = act_TF, dgate_TF = s.gate_TF, dup_TF = s.up_TF;  // in place: each has been used up
  ops::linear_backward_input(c.backend, dy_TD, w.w_down_DF, dact_TF, Write::kOverwrite);
  ops::swiglu_backward(c.backend, dact_TF, s.gate_TF, s.up_TF, dgate_TF, dup_TF);
  ops::linear_backward_weight(c.backend, dgate_TF, n_TD, dw.w_gate_FD);
  ops::linear_backward_weight(c.backend, dup_TF, n_TD, dw.w_up_FD);
  ops::linear_backward_input(c.backend, dgate_TF, w.w_gate_FD, dn_TD, Write::kOverwrite);
  ops::linear_backward_input(c.backend, dup_TF, w.w_up_FD, dn_TD, Write::kAccumulate);
}

}  // namespace optimus
