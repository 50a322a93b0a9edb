#include "optimus/ops/linear.hpp"

#include "optimus/ops/arguments.hpp"

namespace optimus::ops {
namespace {

/// The weights of a grouped product and the segments of rows that meet them.
void expect_segments(const Arguments& arguments, ConstView w_eOI, ConstView segments_e, std::string_view w_name) {
  arguments.expect_ndim(w_name, w_eOI, 3);
  arguments.expect_shape("segments_e", segments_e, {w_eOI.size(0) + 1});
  arguments.expect_dtype("segments_e", segments_e, DType::kI64);
}

}  // namespace

void linear_forward(Backend& backend, ConstView x_TI, ConstView w_OI, View y_TO) {
  const Arguments arguments(backend, "linear_forward");
  arguments.expect_ndim("x_TI", x_TI, 2);
  arguments.expect_ndim("w_OI", w_OI, 2);
  arguments.expect_shape("w_OI", w_OI, {w_OI.size(0), x_TI.size(1)});
  arguments.expect_shape("y_TO", y_TO, {x_TI.size(0), w_OI.size(0)});
  arguments.expect_compute("x_TI", x_TI);
  arguments.expect_same("w_OI", w_OI, x_TI);
  arguments.expect_same_or_f32("y_TO", y_TO, x_TI);
  backend.linear_forward(x_TI, w_OI, y_TO);
}

void linear_backward_input(Backend& backend, ConstView dy_TO, ConstView w_OI, View dx_TI, Write write) {
  const Arguments arguments(backend, "linear_backward_input");
  arguments.expect_ndim("dy_TO", dy_TO, 2);
  arguments.expect_ndim("w_OI", w_OI, 2);
  arguments.expect_shape("w_OI", w_OI, {dy_TO.size(1), w_OI.size(1)});
  arguments.expect_shape("dx_TI", dx_TI, {dy_TO.size(0), w_OI.size(1)});
  arguments.expect_compute("dy_TO", dy_TO);
  arguments.expect_same("w_OI", w_OI, dy_TO);
  arguments.expect_same_or_f32("dx_TI", dx_TI, dy_TO);
  backend.linear_backward_input(dy_TO, w_OI, dx_TI, write);
}

void linear_backward_weight(Backend& backend, ConstView dy_TO, ConstView x_TI, View dw_OI) {
  const Arguments arguments(backend, "linear_backward_weight");
  arguments.expect_ndim("dy_TO", dy_TO, 2);
  arguments.expect_ndim("x_TI", x_TI, 2);
  arguments.expect_shape("x_TI", x_TI, {dy_TO.size(0), x_TI.size(1)});
  arguments.expect_shape("dw_OI", dw_OI, {dy_TO.size(1), x_TI.size(1)});
  arguments.expect_compute("dy_TO", dy_TO);
  arguments.expect_same("x_TI", x_TI, dy_TO);
  arguments.expect_same_or_f32("dw_OI", dw_OI, dy_TO);
  backend.linear_backward_weight(dy_TO, x_TI, dw_OI);
}

void grouped_linear_forward(Backend& backend, ConstView x_RI, ConstView w_eOI, ConstView segments_e, View y_RO) {
  const Arguments arguments(backend, "grouped_linear_forward");
  expect_segments(arguments, w_eOI, segments_e, "w_eOI");
  arguments.expect_ndim("x_RI", x_RI, 2);
  arguments.expect_shape("x_RI", x_RI, {x_RI.size(0), w_eOI.size(2)});
  arguments.expect_shape("y_RO", y_RO, {x_RI.size(0), w_eOI.size(1)});
  arguments.expect_compute("x_RI", x_RI);
  arguments.expect_same("w_eOI", w_eOI, x_RI);
  arguments.expect_same_or_f32("y_RO", y_RO, x_RI);
  backend.grouped_linear_forward(x_RI, w_eOI, segments_e, y_RO);
}

void grouped_linear_backward_input(Backend& backend, ConstView dy_RO, ConstView w_eOI, ConstView segments_e, View dx_RI, Write write) {
  const Arguments arguments(backend, "grouped_linear_backward_input");
  expect_segments(arguments, w_eOI, segments_e, "w_eOI");
  arguments.expect_ndim("dy_RO", dy_RO, 2);
  arguments.expect_shape("dy_RO", dy_RO, {dy_RO.size(0), w_eOI.size(1)});
  arguments.expect_shape("dx_RI", dx_RI, {dy_RO.size(0), w_eOI.size(2)});
  arguments.expect_compute("dy_RO", dy_RO);
  arguments.expect_same("w_eOI", w_eOI, dy_RO);
  arguments.expect_same_or_f32("dx_RI", dx_RI, dy_RO);
  backend.grouped_linear_backward_input(dy_RO, w_eOI, segments_e, dx_RI, write);
}

void grouped_linear_backward_weight(Backend& backend, ConstView dy_RO, ConstView x_RI, ConstView segments_e, View dw_eOI) {
  const Arguments arguments(backend, "grouped_linear_backward_weight");
  expect_segments(arguments, dw_eOI, segments_e, "dw_eOI");
  arguments.expect_ndim("dy_RO", dy_RO, 2);
  arguments.expect_shape("dy_RO", dy_RO, {dy_RO.size(0), dw_eOI.size(1)});
  arguments.expect_shape("x_RI", x_RI, {dy_RO.size(0), dw_eOI.size(2)});
  arguments.expect_compute("dy_RO", dy_RO);
  arguments.expect_same("x_RI", x_RI, dy_RO);
  arguments.expect_same_or_f32("dw_eOI", dw_eOI, dy_RO);
  backend.grouped_linear_backward_weight(dy_RO, x_RI, segments_e, dw_eOI);
}

}  // namespace optimus::ops
