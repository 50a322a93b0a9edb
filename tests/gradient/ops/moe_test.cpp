// Movement of rows and the experts' activation, alone and chained as a layer uses them.
#include <gtest/gtest.h>

#include "optimus/ops/linear.hpp"
#include "optimus/ops/moe.hpp"
#include "tests/gradient/ops/gradient_testing.hpp"

namespace optimus {
namespace {

using test::dot;
using test::expect_gradient;
using test::random_f64;
using test::ref;
using test::Tensor;
using test::zeros_f64;

constexpr Index kRows = 5, kWidth = 3, kChoices = 2, kSlots = 7, kCapacity = kRows * kChoices;

/// Five rows, two choices each among four experts of which [1, 4) are local: rows 1, 3 and 4 have one slot, expert 2 has none.
struct Plan {
  Tensor index_TK = Tensor(DType::kI32, {kRows, kChoices}, {1, 3, /**/ 0, 3, /**/ 3, 1, /**/ 1, 0, /**/ 0, 1});
  Tensor segments_e = Tensor(DType::kI64, {4}), input_indices_R = Tensor(DType::kI32, {kCapacity}), row_offsets_T = Tensor(DType::kI64, {kRows + 1});
  Tensor output_indices_R = Tensor(DType::kI32, {kCapacity}), selected_k_R = Tensor(DType::kI32, {kCapacity});
  DispatchPlan views{segments_e, input_indices_R, row_offsets_T, output_indices_R, selected_k_R};
  Plan() { ops::build_dispatch(ref(), index_TK, 1, views); }
};

/// dot over the slots in use: spare rows are NaN.
double dot_of_slots(const Tensor& a, const Tensor& b, Index width) {
  double sum = 0;
  for (Index i = 0; i < kSlots * width; ++i) sum += a[i] * b[i];
  return sum;
}

TEST(Dispatch, ScatterIsTheGradientOfGather) {
  const Plan plan;
  ASSERT_EQ(plan.segments_e.values(), (std::vector<double>{0, 4, 4, 7}));
  const auto x = random_f64("x", {kRows, kWidth}), dx_R = random_f64("dx_R", {kCapacity, kWidth}), dx = zeros_f64({kRows, kWidth});
  const Tensor x_R(DType::kF64, {kCapacity, kWidth});
  const auto loss = [&] {
    ops::gather_rows(ref(), x, plan.views, x_R);
    return dot_of_slots(x_R, dx_R, kWidth);
  };
  ops::scatter_rows(ref(), dx_R, plan.views, dx, Write::kOverwrite);
  expect_gradient("dx", x, dx, loss);
}

TEST(Dispatch, SlotWeightsBackwardIsTheGradientOfForward) {
  const Plan plan;
  const auto weight = random_f64("weight", {kRows, kChoices}), dweight_R = random_f64("dweight_R", {kCapacity}), dweight = zeros_f64({kRows, kChoices});
  const Tensor weight_R(DType::kF64, {kCapacity});
  const auto loss = [&] {
    ops::slot_weights(ref(), weight, plan.views, weight_R);
    return dot_of_slots(weight_R, dweight_R, 1);
  };
  ops::slot_weights_backward(ref(), dweight_R, plan.views, dweight);
  expect_gradient("dweight", weight, dweight, loss);
}

TEST(Swiglu, BackwardIsTheGradientOfForward) {
  const auto gate = random_f64("gate", {4, 5}, 2), up = random_f64("up", {4, 5}), dact = random_f64("dact", {4, 5}), act = zeros_f64({4, 5}),
             dgate = zeros_f64({4, 5}), dup = zeros_f64({4, 5});
  const auto loss = [&] {
    ops::swiglu_forward(ref(), gate, up, {}, act);
    return dot(act, dact);
  };
  ops::swiglu_backward(ref(), dact, gate, up, dgate, dup);
  expect_gradient("dgate", gate, dgate, loss);
  expect_gradient("dup", up, dup, loss);
}

/// y = combine of weight[r] * Wdown (act(gate, up)): what follows the gate and up products in a layer.
struct ExpertTail {
  static constexpr Index kF = 4;
  Plan plan;
  Tensor gate_RF = random_f64("gate", {kCapacity, kF}, 2), up_RF = random_f64("up", {kCapacity, kF}), w_down_eDF = random_f64("w", {3, kWidth, kF}),
         weight_TK = random_f64("weight", {kRows, kChoices});
  Tensor dy_TD = random_f64("dy", {kRows, kWidth}), y_TD = zeros_f64({kRows, kWidth}), num_rows = Tensor(DType::kI64, {1}, {kSlots});
  Tensor act_RF = Tensor(DType::kF64, {kCapacity, kF}), y_RD = Tensor(DType::kF64, {kCapacity, kWidth});

  [[nodiscard]] double loss() const {
    ops::swiglu_forward(ref(), gate_RF, up_RF, num_rows, act_RF);
    ops::grouped_linear_forward(ref(), act_RF, w_down_eDF, plan.segments_e, y_RD);
    ops::combine_forward(ref(), y_RD, weight_TK, plan.views, y_TD);
    return dot(y_TD, dy_TD);
  }
};

TEST(ExpertSwiglu, BackwardIsTheGradientOfTheWeightedExpertOutput) {
  const ExpertTail tail;
  const Index F = ExpertTail::kF;
  const auto dgate = zeros_f64({kCapacity, F}), dup = zeros_f64({kCapacity, F}), dw_down = zeros_f64({3, kWidth, F}), dweight = zeros_f64({kRows, kChoices});
  const Tensor dy_R(DType::kF64, {kCapacity, kWidth}), dact(DType::kF64, {kCapacity, F}), weighted_act(DType::kF64, {kCapacity, F}),
      weight_R(DType::kF64, {kCapacity}), dweight_R(DType::kF64, {kCapacity});
  const auto& segments = tail.plan.segments_e;
  ops::gather_rows(ref(), tail.dy_TD, tail.plan.views, dy_R);
  ops::slot_weights(ref(), tail.weight_TK, tail.plan.views, weight_R);
  ops::grouped_linear_backward_input(ref(), dy_R, tail.w_down_eDF, segments, dact, Write::kOverwrite);
  ops::expert_swiglu_backward(ref(), dact, tail.gate_RF, tail.up_RF, weight_R, segments, {dgate, dup, weighted_act, dweight_R});
  ops::grouped_linear_backward_weight(ref(), dy_R, weighted_act, segments, dw_down);
  ops::slot_weights_backward(ref(), dweight_R, tail.plan.views, dweight);
  const auto loss = [&] { return tail.loss(); };
  expect_gradient("dgate", tail.gate_RF, dgate, loss);  // rows of spare slots: 0, as they started
  expect_gradient("dup", tail.up_RF, dup, loss);
  expect_gradient("dweight", tail.weight_TK, dweight, loss);
  expect_gradient("dw_down", tail.w_down_eDF, dw_down, loss);
}

}  // namespace
}  // namespace optimus
