#pragma once
// The norm before a block and before the head: RMSNorm with gain (OLMoE) or LayerNorm without parameters (OLMo).

#include "optimus/model/context.hpp"

namespace optimus {

/// y is kept because the block after the norm reads it again in backward.
struct NormSaved {
  View y_lD, mean_l, rstd_l;
};

[[nodiscard]] NormSaved allocate_norm(const ModelContext& c);
/// Writes:   all of `s`. `gain_D` does not exist for a dense model.
void norm_forward(const ModelContext& c, ConstView gain_D, ConstView x_lD, const NormSaved& s);
/// Writes:   dx_lD accumulated (the residual's gradient is there already); dgain_D accumulated with this rank's part of it, which may be none.
void norm_backward(const ModelContext& c, ConstView gain_D, ConstView x_lD, const NormSaved& s, ConstView dy_lD, View dx_lD, View dgain_D);

}  // namespace optimus
