#include "optimus/ops/norm.hpp"

#include "optimus/ops/arguments.hpp"

namespace optimus::ops {

void rms_norm_forward(Backend& backend, ConstView x_TD, ConstView gain_D, double eps, View y_TD, View rstd_T) {
  const Arguments arguments(backend, "rms_norm_forward");
  arguments.expect_ndim("x_TD", x_TD, 2);
  arguments.expect_shape("gain_D", gain_D, {x_TD.size(1)});
  arguments.expect_shape("y_TD", y_TD, x_TD.shape());
  arguments.expect_shape("rstd_T", rstd_T, {x_TD.size(0)});
  arguments.expect_compute("x_TD", x_TD);
  arguments.expect_same("gain_D", gain_D, x_TD);
  arguments.expect_same("y_TD", y_TD, x_TD);
  arguments.expect_wide("rstd_T", rstd_T, x_TD);
  backend.rms_norm_forward(x_TD, gain_D, eps, y_TD, rstd_T);
}

void rms_norm_backward(Backend& backend, ConstView dy_TD, ConstView x_TD, ConstView gain_D, ConstView rstd_T, View dx_TD, Write write, View dgain_D) {
  const Arguments arguments(backend, "rms_norm_backward");
  arguments.expect_ndim("x_TD", x_TD, 2);
  arguments.expect_shape("dy_TD", dy_TD, x_TD.shape());
  arguments.expect_shape("gain_D", gain_D, {x_TD.size(1)});
  arguments.expect_shape("rstd_T", rstd_T, {x_TD.size(0)});
  arguments.expect_shape("dx_TD", dx_TD, x_TD.shape());
  arguments.expect_shape("dgain_D", dgain_D, {x_TD.size(1)});
  arguments.expect_compute("x_TD", x_TD);
  arguments.expect_same("dy_TD", dy_TD, x_TD);
  arguments.expect_same("gain_D", gain_D, x_TD);
  arguments.expect_wide("rstd_T", rstd_T, x_TD);
  arguments.expect_same("dx_TD", dx_TD, x_TD);
  arguments.expect_same_or_f32("dgain_D", dgain_D, gain_D);
  backend.rms_norm_backward(dy_TD, x_TD, gain_D, rstd_T, dx_TD, write, dgain_D);
}

void layer_norm_forward(Backend& backend, ConstView x_TD, double eps, View y_TD, View mean_T, View rstd_T) {
  const Arguments arguments(backend, "layer_norm_forward");
  arguments.expect_ndim("x_TD", x_TD, 2);
  arguments.expect_shape("y_TD", y_TD, x_TD.shape());
  arguments.expect_shape("mean_T", mean_T, {x_TD.size(0)});
  arguments.expect_shape("rstd_T", rstd_T, {x_TD.size(0)});
  arguments.expect_compute("x_TD", x_TD);
  arguments.expect_same("y_TD", y_TD, x_TD);
  arguments.expect_wide("mean_T", mean_T, x_TD);
  arguments.expect_wide("rstd_T", rstd_T, x_TD);
  backend.layer_norm_forward(x_TD, eps, y_TD, mean_T, rstd_T);
}

void layer_norm_backward(Backend& backend, ConstView dy_TD, ConstView x_TD, ConstView mean_T, ConstView rstd_T, View dx_TD, Write write) {
  const Arguments arguments(backend, "layer_norm_backward");
  arguments.expect_ndim("x_TD", x_TD, 2);
  arguments.expect_shape("dy_TD", dy_TD, x_TD.shape());
  arguments.expect_shape("mean_T", mean_T, {x_TD.size(0)});
  arguments.expect_shape("rstd_T", rstd_T, {x_TD.size(0)});
  arguments.expect_shape("dx_TD", dx_TD, x_TD.shape());
  arguments.expect_compute("x_TD", x_TD);
  arguments.expect_same("dy_TD", dy_TD, x_TD);
  arguments.expect_wide("mean_T", mean_T, x_TD);
  arguments.expect_wide("rstd_T", rstd_T, x_TD);
  arguments.expect_same("dx_TD", dx_TD, x_TD);
  backend.layer_norm_backward(dy_TD, x_TD, mean_T, rstd_T, dx_TD, write);
}

}  // namespace optimus::ops
