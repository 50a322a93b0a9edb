#include "optimus/ops/norm.hpp"

#include "optimus/ops/arguments.hpp"

namespace optimus::ops {
namespace {

void expect_part(const Arguments& arguments, const NormKernels::RmsNormPart& part) {
  arguments.expect_ndim("x_TD", part.x_TD, 2);
  arguments.expect_shape("dy_TD", part.dy_TD, part.x_TD.shape());
  arguments.expect_shape("gain_D", part.gain_D, {part.x_TD.size(1)});
  arguments.expect_shape("rstd_T", part.rstd_T, {part.x_TD.size(0)});
  arguments.expect_compute("x_TD", part.x_TD);
  arguments.expect_same("dy_TD", part.dy_TD, part.x_TD);
  arguments.expect_same("gain_D", part.gain_D, part.x_TD);
  arguments.expect_wide("rstd_T", part.rstd_T, part.x_TD);
}

}  // namespace

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

void row_sum_squares(Backend& backend, ConstView x_TD, View sums_T) {
  const Arguments arguments(backend, "row_sum_squares");
  arguments.expect_ndim("x_TD", x_TD, 2);
  arguments.expect_shape("sums_T", sums_T, {x_TD.size(0)});
  arguments.expect_compute("x_TD", x_TD);
  arguments.expect_wide("sums_T", sums_T, x_TD);
  backend.row_sum_squares(x_TD, sums_T);
}

void rms_norm_rstd(Backend& backend, ConstView sums_T, Index width, double eps, View rstd_T) {
  const Arguments arguments(backend, "rms_norm_rstd");
  arguments.expect_ndim("sums_T", sums_T, 1);
  arguments.expect_shape("rstd_T", rstd_T, sums_T.shape());
  arguments.expect_compute("sums_T", sums_T);
  arguments.expect_wide("sums_T", sums_T, sums_T);
  arguments.expect_same("rstd_T", rstd_T, sums_T);
  backend.rms_norm_rstd(sums_T, width, eps, rstd_T);
}

void rms_norm_apply(Backend& backend, ConstView x_TD, ConstView gain_D, ConstView rstd_T, View y_TD) {
  const Arguments arguments(backend, "rms_norm_apply");
  arguments.expect_ndim("x_TD", x_TD, 2);
  arguments.expect_shape("gain_D", gain_D, {x_TD.size(1)});
  arguments.expect_shape("rstd_T", rstd_T, {x_TD.size(0)});
  arguments.expect_shape("y_TD", y_TD, x_TD.shape());
  arguments.expect_compute("x_TD", x_TD);
  arguments.expect_same("gain_D", gain_D, x_TD);
  arguments.expect_wide("rstd_T", rstd_T, x_TD);
  arguments.expect_same("y_TD", y_TD, x_TD);
  backend.rms_norm_apply(x_TD, gain_D, rstd_T, y_TD);
}

void rms_norm_dots(Backend& backend, const NormKernels::RmsNormPart& part, View dots_T) {
  const Arguments arguments(backend, "rms_norm_dots");
  expect_part(arguments, part);
  arguments.expect_shape("dots_T", dots_T, {part.x_TD.size(0)});
  arguments.expect_wide("dots_T", dots_T, part.x_TD);
  backend.rms_norm_dots(part, dots_T);
}

void rms_norm_backward_apply(Backend& backend, const NormKernels::RmsNormPart& part, ConstView dots_T, View dx_TD, Write write, View dgain_D) {
  const Arguments arguments(backend, "rms_norm_backward_apply");
  expect_part(arguments, part);
  arguments.expect_shape("dots_T", dots_T, {part.x_TD.size(0)});
  arguments.expect_shape("dx_TD", dx_TD, part.x_TD.shape());
  arguments.expect_shape("dgain_D", dgain_D, {part.x_TD.size(1)});
  arguments.expect_wide("dots_T", dots_T, part.x_TD);
  arguments.expect_same("dx_TD", dx_TD, part.x_TD);
  arguments.expect_same_or_f32("dgain_D", dgain_D, part.gain_D);
  backend.rms_norm_backward_apply(part, dots_T, dx_TD, write, dgain_D);
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
