#include "optimus/model/norm.hpp"

#include "optimus/ops/misc.hpp"
#include "optimus/ops/norm.hpp"

namespace optimus {

NormSaved allocate_norm(const ModelContext& c) {
  NormSaved s{.y_lD = c.keep_local_rows(c.model().hidden_size), .mean_l = {}, .rstd_l = c.keep(c.wide, {c.local_rows()})};
  if (!c.model().is_moe) s.mean_l = c.keep(c.wide, {c.local_rows()});
  return s;
}

void norm_forward(const ModelContext& c, ConstView gain_D, ConstView x_lD, const NormSaved& s) {
  if (c.model().is_moe) ops::rms_norm_forward(c.backend, x_lD, gain_D, c.model().norm_eps, s.y_lD, s.rstd_l);
  else ops::layer_norm_forward(c.backend, x_lD, c.model().norm_eps, s.y_lD, s.mean_l, s.rstd_l);
}

void norm_backward(const ModelContext& c, ConstView gain_D, ConstView x_lD, const NormSaved& s, ConstView dy_lD, View dx_lD, View dgain_D) {
  if (!c.model().is_moe) return ops::layer_norm_backward(c.backend, dy_lD, x_lD, s.mean_l, s.rstd_l, dx_lD, Write::kAccumulate);
  Scratch scratch(c.arena);
  if (!c.counts_gains()) {
    dgain_D = scratch.like(dgain_D);  // another rank has it
    ops::fill_zero(c.backend, dgain_D);
  }
  ops::rms_norm_backward(c.backend, dy_lD, x_lD, gain_D, s.rstd_l, dx_lD, Write::kAccumulate, dgain_D);
}

}  // namespace optimus
