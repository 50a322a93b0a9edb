#pragma once
// The norm before a block and before the head: RMSNorm with gain (OLMoE) or LayerNorm without parameters (OLMo).

#include "optimus/model/context.hpp"

namespace optimus {

/// y is kept because the block after the norm reads it again in backward.
struct NormSaved {
  View y_TD, mean_T, rstd_T;
};

[[nodiscard]] NormSaved allocate_norm(const ModelContext& c);
/// Writes:   all of `s`. `gain_D` does not exist for a dense model.
void norm_forward(const ModelContext& c, ConstView gain_D, ConstView x_TD, const NormSaved& s);
/// Writes:   dx_TD accumulated (the residual's gradient is there already), dgain_D accumulated.
void norm_backward(const ModelContext& c, ConstView gain_D, ConstView x_TD, const NormSaved& s, ConstView dy_TD, View dx_TD, View dgain_D);

}  // namespace optimus
