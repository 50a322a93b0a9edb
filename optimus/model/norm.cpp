#include "optimus/model/norm.hpp"

#include "optimus/ops/norm.hpp"

namespace optimus {

NormSaved allocate_norm(const ModelContext& c) {
  NormSaved s{.y_TD = c.keep_local_rows(c.model().hidden_size), .mean_T = {}, .rstd_T = c.keep(c.wide, {c.local_rows()})};
  if (!c.model().is_moe) s.mean_T = c.keep(c.wide, {c.local_rows()});
  return s;
}

void norm_forward(const ModelContext& c, ConstView gain_D, ConstView x_TD, const NormSaved& s) {
  if (c.model().is_moe) ops::rms_norm_forward(c.backend, x_TD, gain_D, c.model().norm_eps, s.y_TD, s.rstd_T);
  else ops::layer_norm_forward(c.backend, x_TD, c.model().norm_eps, s.y_TD, s.mean_T, s.rstd_T);
}

void norm_backward(const ModelContext& c, ConstView gain_D, ConstView x_TD, const NormSaved& s, ConstView dy_TD, View dx_TD, View dgain_D) {
  if (c.model().is_moe) ops::rms_norm_backward(c.backend, dy_TD, x_TD, gain_D, s.rstd_T, dx_TD, Write::kAccumulate, dgain_D);
  else ops::layer_norm_backward(c.backend, dy_TD, x_TD, s.mean_T, s.rstd_T, dx_TD, Write::kAccumulate);
}

}  // namespace optimus
