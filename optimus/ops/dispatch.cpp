#include <algorithm>

#include "optimus/ops/arguments.hpp"
#include "optimus/ops/moe.hpp"

namespace optimus::ops {
namespace {

/// The lists of a plan for `num_rows` rows with room for `num_slots` slots.
void expect_plan(const Arguments& arguments, const DispatchPlan& plan, Index num_rows, Index num_slots) {
  struct Slots {
    std::string_view name;
    ConstView view;
  };
  const Slots lists[] = {{"input_indices_R", plan.input_indices_R}, {"output_indices_R", plan.output_indices_R}, {"selected_k_R", plan.selected_k_R}};
  arguments.expect_ndim("segments_e", plan.segments_e, 1);
  arguments.expect(plan.segments_e.size(0) >= 1, "[e + 1]", "segments_e", plan.segments_e);
  arguments.expect_dtype("segments_e", plan.segments_e, DType::kI64);
  arguments.expect_shape("row_offsets_T", plan.row_offsets_T, {num_rows + 1});
  arguments.expect_dtype("row_offsets_T", plan.row_offsets_T, DType::kI64);
  for (const Slots& list : lists) {
    arguments.expect_capacity(list.name, list.view, num_slots, {num_slots});
    arguments.expect_dtype(list.name, list.view, DType::kI32);
  }
}

/// Rows of tokens [T, D] and of slots [capacity, D], joined by a plan.
void expect_rows(const Arguments& arguments, const DispatchPlan& plan, ConstView tokens, std::string_view slots_name, ConstView slots) {
  arguments.expect_ndim(slots_name, slots, 2);
  arguments.expect(slots.size(1) == tokens.size(1), "rows as wide as the tokens'", slots_name, slots);
  arguments.expect_ndim("input_indices_R", plan.input_indices_R, 1);
  expect_plan(arguments, plan, tokens.size(0), plan.input_indices_R.size(0));
  arguments.expect_capacity(slots_name, slots, plan.input_indices_R.size(0), slots.shape());
}

void expect_slot_weights(const Arguments& arguments, const DispatchPlan& plan, std::string_view row_name, ConstView weight_TK, std::string_view slot_name,
                         ConstView weight_R) {
  arguments.expect_ndim(row_name, weight_TK, 2);
  arguments.expect_ndim("input_indices_R", plan.input_indices_R, 1);
  expect_plan(arguments, plan, weight_TK.size(0), plan.input_indices_R.size(0));
  arguments.expect_ndim(slot_name, weight_R, 1);
  arguments.expect_capacity(slot_name, weight_R, plan.input_indices_R.size(0), weight_R.shape());
  arguments.expect_compute(row_name, weight_TK);
  arguments.expect_wide(row_name, weight_TK, weight_TK);
  arguments.expect_same(slot_name, weight_R, weight_TK);
}

}  // namespace

void expert_ranks(Backend& backend, ConstView index_TK, Index experts_per_rank, View rank_TK) {
  const Arguments arguments(backend, "expert_ranks");
  arguments.expect_ndim("index_TK", index_TK, 2);
  arguments.expect_dtype("index_TK", index_TK, DType::kI32);
  arguments.expect(experts_per_rank >= 1, "experts_per_rank of 1 or more", "index_TK", index_TK);
  arguments.expect_shape("rank_TK", rank_TK, index_TK.shape());
  arguments.expect_dtype("rank_TK", rank_TK, DType::kI32);
  backend.expert_ranks(index_TK, experts_per_rank, rank_TK);
}

void build_dispatch(Backend& backend, ConstView index_TK, Index expert_begin, const DispatchPlan& plan) {
  const Arguments arguments(backend, "build_dispatch");
  arguments.expect_ndim("index_TK", index_TK, 2);
  arguments.expect_dtype("index_TK", index_TK, DType::kI32);
  arguments.expect(expert_begin >= 0, "expert_begin of 0 or more", "index_TK", index_TK);
  arguments.expect_ndim("segments_e", plan.segments_e, 1);
  expect_plan(arguments, plan, index_TK.size(0), index_TK.size(0) * std::min(index_TK.size(1), plan.segments_e.size(0) - 1));
  backend.build_dispatch(index_TK, expert_begin, plan);
}

void gather_rows(Backend& backend, ConstView x_TD, const DispatchPlan& plan, View x_RD) {
  const Arguments arguments(backend, "gather_rows");
  arguments.expect_ndim("x_TD", x_TD, 2);
  expect_rows(arguments, plan, x_TD, "x_RD", x_RD);
  if (x_TD.dtype() != DType::kI32) arguments.expect_compute("x_TD", x_TD);
  arguments.expect_same("x_RD", x_RD, x_TD);
  backend.gather_rows(x_TD, plan, x_RD);
}

void scatter_rows(Backend& backend, ConstView dx_RD, const DispatchPlan& plan, View dx_TD, Write write) {
  const Arguments arguments(backend, "scatter_rows");
  arguments.expect_ndim("dx_TD", dx_TD, 2);
  expect_rows(arguments, plan, dx_TD, "dx_RD", dx_RD);
  arguments.expect_compute("dx_RD", dx_RD);
  arguments.expect_same("dx_TD", dx_TD, dx_RD);
  backend.scatter_rows(dx_RD, plan, dx_TD, write);
}

void combine_forward(Backend& backend, ConstView y_RD, ConstView weight_TK, const DispatchPlan& plan, View y_TD) {
  const Arguments arguments(backend, "combine_forward");
  arguments.expect_ndim("y_TD", y_TD, 2);
  expect_rows(arguments, plan, y_TD, "y_RD", y_RD);
  arguments.expect_ndim("weight_TK", weight_TK, 2);
  arguments.expect_shape("weight_TK", weight_TK, {y_TD.size(0), weight_TK.size(1)});
  arguments.expect_compute("y_RD", y_RD);
  arguments.expect_wide("weight_TK", weight_TK, y_RD);
  arguments.expect_same("y_TD", y_TD, y_RD);
  backend.combine_forward(y_RD, weight_TK, plan, y_TD);
}

void slot_weights(Backend& backend, ConstView weight_TK, const DispatchPlan& plan, View weight_R) {
  expect_slot_weights(Arguments(backend, "slot_weights"), plan, "weight_TK", weight_TK, "weight_R", weight_R);
  backend.slot_weights(weight_TK, plan, weight_R);
}

void slot_weights_backward(Backend& backend, ConstView dweight_R, const DispatchPlan& plan, View dweight_TK) {
  expect_slot_weights(Arguments(backend, "slot_weights_backward"), plan, "dweight_TK", dweight_TK, "dweight_R", dweight_R);
  backend.slot_weights_backward(dweight_R, plan, dweight_TK);
}

}  // namespace optimus::ops
