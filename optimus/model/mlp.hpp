#pragma once
// The dense feed-forward block:  y = Wdown (SiLU(Wgate n) * Wup n)
//
// Under tensor parallelism a rank has a part of the width F: from all rows n it makes its part of the sum over F that is y, and its part of the sum that is dn.

#include "optimus/model/context.hpp"

namespace optimus {

/// Weights, or their gradients.
struct MlpWeights {
  View w_gate_FD, w_up_FD, w_down_DF;
};
struct MlpSaved {
  View gate_TF, up_TF;
};

[[nodiscard]] MlpSaved allocate_mlp(const ModelContext& c);
/// Writes `s` and y_TD. A y_TD that does not exist: only what backward needs (recomputation).
void mlp_forward(const ModelContext& c, const MlpWeights& w, ConstView n_TD, const MlpSaved& s, View y_TD);
/// Writes:   dn_TD overwritten, dw accumulated; `s` is used up.
void mlp_backward(const ModelContext& c, const MlpWeights& w, ConstView n_TD, const MlpSaved& s, ConstView dy_TD, View dn_TD, const MlpWeights& dw);

}  // namespace optimus
