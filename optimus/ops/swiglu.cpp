#include "optimus/ops/arguments.hpp"
#include "optimus/ops/moe.hpp"

namespace optimus::ops {
namespace {

/// An [R, F] tensor of the shape and type of gate_RF.
void expect_like_gate(const Arguments& arguments, std::string_view name, ConstView view, ConstView gate_RF) {
  arguments.expect_shape(name, view, gate_RF.shape());
  arguments.expect_same(name, view, gate_RF);
}

}  // namespace

void swiglu_forward(Backend& backend, ConstView gate_RF, ConstView up_RF, ConstView num_rows, View act_RF) {
  const Arguments arguments(backend, "swiglu_forward");
  arguments.expect_ndim("gate_RF", gate_RF, 2);
  arguments.expect_compute("gate_RF", gate_RF);
  expect_like_gate(arguments, "up_RF", up_RF, gate_RF);
  expect_like_gate(arguments, "act_RF", act_RF, gate_RF);
  if (num_rows.exists()) {
    arguments.expect_shape("num_rows", num_rows, {1});
    arguments.expect_dtype("num_rows", num_rows, DType::kI64);
  }
  backend.swiglu_forward(gate_RF, up_RF, num_rows, act_RF);
}

void swiglu_backward(Backend& backend, ConstView dact_RF, ConstView gate_RF, ConstView up_RF, View dgate_RF, View dup_RF) {
  const Arguments arguments(backend, "swiglu_backward");
  arguments.expect_ndim("gate_RF", gate_RF, 2);
  arguments.expect_compute("gate_RF", gate_RF);
  expect_like_gate(arguments, "dact_RF", dact_RF, gate_RF);
  expect_like_gate(arguments, "up_RF", up_RF, gate_RF);
  expect_like_gate(arguments, "dgate_RF", dgate_RF, gate_RF);
  expect_like_gate(arguments, "dup_RF", dup_RF, gate_RF);
  backend.swiglu_backward(dact_RF, gate_RF, up_RF, dgate_RF, dup_RF);
}

void expert_swiglu_backward(Backend& backend, ConstView dact_RF, ConstView gate_RF, ConstView up_RF, ConstView weight_R, ConstView segments_e,
                            const MoeKernels::ExpertActivationGradient& out) {
  const Arguments arguments(backend, "expert_swiglu_backward");
  arguments.expect_ndim("gate_RF", gate_RF, 2);
  arguments.expect_compute("gate_RF", gate_RF);
  expect_like_gate(arguments, "dact_RF", dact_RF, gate_RF);
  expect_like_gate(arguments, "up_RF", up_RF, gate_RF);
  expect_like_gate(arguments, "dgate_RF", out.dgate_RF, gate_RF);
  expect_like_gate(arguments, "dup_RF", out.dup_RF, gate_RF);
  expect_like_gate(arguments, "weighted_act_RF", out.weighted_act_RF, gate_RF);
  arguments.expect_shape("weight_R", weight_R, {gate_RF.size(0)});
  arguments.expect_wide("weight_R", weight_R, gate_RF);
  arguments.expect_shape("dweight_R", out.dweight_R, {gate_RF.size(0)});
  arguments.expect_wide("dweight_R", out.dweight_R, gate_RF);
  arguments.expect_ndim("segments_e", segments_e, 1);
  arguments.expect(segments_e.size(0) >= 1, "[e + 1]", "segments_e", segments_e);
  arguments.expect_dtype("segments_e", segments_e, DType::kI64);
  backend.expert_swiglu_backward(dact_RF, gate_RF, up_RF, weight_R, segments_e, out);
}

}  // namespace optimus::ops
