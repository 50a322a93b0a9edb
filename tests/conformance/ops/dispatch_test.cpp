// Dispatch plans and the movement of rows on every backend against the reference in double.
#include <gtest/gtest.h>

#include "optimus/ops/moe.hpp"
#include "tests/support/ops_testing.hpp"

namespace optimus {
namespace {

using test::Kind;
using test::normal;
using test::OpCase;
using test::Routed;

/// No rows; one; all experts local; the first, a middle, the last part of the experts; nothing local; experts without rows; more rows than any block.
std::vector<Routed> routings() {
  return {test::random_routing(0, 4, 2, 4, 0, 4),      test::random_routing(1, 1, 1, 1, 0, 1),     test::random_routing(7, 4, 2, 4, 0, 4),
          test::random_routing(33, 8, 3, 8, 0, 4),     test::random_routing(33, 8, 3, 8, 2, 5),    test::random_routing(33, 8, 3, 8, 7, 8),
          test::random_routing(17, 16, 2, 8, 8, 16),   test::random_routing(129, 16, 4, 5, 0, 16), test::random_routing(61, 3, 3, 3, 0, 3),
          test::random_routing(331, 64, 8, 64, 0, 64), test::random_routing(263, 12, 2, 12, 6, 12)};
}
constexpr Index kWidths[] = {1, 33};

TEST(Dispatch, PlanAgreesWithReferenceAndLeavesSpareSlotsAlone) {
  for (const Routed& r : routings()) {
    OpCase op;
    op.in("index", Kind::kI32, {r.num_rows, r.top_k}, r.index)
        .out("segments", Kind::kI64, {r.expert_end - r.expert_begin + 1})
        .out("row_offsets", Kind::kI64, {r.num_rows + 1});
    for (const char* name : {"input_indices", "output_indices", "selected_k"}) op.out(name, Kind::kI32, {r.capacity()}, r.num_slots());
    op.check([&](Backend& backend, const auto& a) { ops::build_dispatch(backend, a["index"], r.expert_begin, test::plan_of(a)); }, {}, {DType::kF32});
  }
}

TEST(Dispatch, ExpertRanksAreEachNamedOnceInOrder) {
  for (const Routed& r : routings()) {
    for (const Index experts_per_rank : {Index{1}, Index{2}, Index{5}, r.num_experts}) {
      OpCase op;
      op.in("index", Kind::kI32, {r.num_rows, r.top_k}, r.index).out("rank", Kind::kI32, {r.num_rows, r.top_k});
      op.check([&](Backend& backend, const auto& a) { ops::expert_ranks(backend, a["index"], experts_per_rank, a["rank"]); }, {}, {DType::kF32});
    }
  }
}

TEST(Dispatch, GatherCopiesTheRowsOfTheSlots) {
  for (const Routed& r : routings()) {
    for (const Index D : kWidths) {
      OpCase op;
      test::add_plan(op, r);
      op.in("x", Kind::kData, {r.num_rows, D}, normal("x", r.num_rows * D)).out("x_R", Kind::kData, {r.capacity(), D}, r.num_slots());
      op.check([](Backend& backend, const auto& a) { ops::gather_rows(backend, a["x"], test::plan_of(a), a["x_R"]); }, {.f32 = 0, .bf16 = 0});
    }
    OpCase integers;
    test::add_plan(integers, r);
    integers.in("x", Kind::kI32, {r.num_rows, 3}, test::below("x", r.num_rows * 3, 1000)).out("x_R", Kind::kI32, {r.capacity(), 3}, r.num_slots());
    integers.check([](Backend& backend, const auto& a) { ops::gather_rows(backend, a["x"], test::plan_of(a), a["x_R"]); }, {}, {DType::kF32});
  }
}

TEST(Dispatch, ScatterSumsTheSlotsOfARowOverwritingAndAccumulating) {
  for (const Routed& r : routings()) {
    for (const Index D : kWidths) {
      OpCase overwrite, accumulate;
      for (OpCase* op : {&overwrite, &accumulate}) {
        test::add_plan(*op, r);
        op->in("dx_R", Kind::kData, {r.capacity(), D}, normal("dx_R", r.capacity() * D), r.num_slots());
      }
      overwrite.out("dx", Kind::kData, {r.num_rows, D});
      accumulate.in_out("dx", Kind::kData, {r.num_rows, D}, normal("dx", r.num_rows * D));
      const test::Bounds bounds{.same_for_any_threads = true};
      overwrite.check([](Backend& backend, const auto& a) { ops::scatter_rows(backend, a["dx_R"], test::plan_of(a), a["dx"], Write::kOverwrite); }, bounds);
      accumulate.check([](Backend& backend, const auto& a) { ops::scatter_rows(backend, a["dx_R"], test::plan_of(a), a["dx"], Write::kAccumulate); }, bounds);
    }
  }
}

TEST(Dispatch, CombineIsTheWeightedSumOfTheSlotsOfARowAndZeroWithoutSlots) {
  for (const Routed& r : routings()) {
    for (const Index D : kWidths) {
      OpCase op;
      test::add_plan(op, r);
      op.in("y_R", Kind::kData, {r.capacity(), D}, normal("y_R", r.capacity() * D), r.num_slots())
          .in("weight", Kind::kWide, {r.num_rows, r.top_k}, normal("weight", r.capacity()));
      op.out("y", Kind::kData, {r.num_rows, D});
      op.check([](Backend& backend, const auto& a) { ops::combine_forward(backend, a["y_R"], a["weight"], test::plan_of(a), a["y"]); },
               {.same_for_any_threads = true});
    }
  }
}

TEST(Dispatch, SlotWeightsAreTheWeightsInExpertOrderAndBack) {
  for (const Routed& r : routings()) {
    OpCase forward, backward;
    test::add_plan(forward, r);
    test::add_plan(backward, r);
    forward.in("weight", Kind::kWide, {r.num_rows, r.top_k}, normal("weight", r.capacity())).out("weight_R", Kind::kWide, {r.capacity()}, r.num_slots());
    backward.in("dweight_R", Kind::kWide, {r.capacity()}, normal("dweight_R", r.capacity()), r.num_slots()).out("dweight", Kind::kWide, {r.num_rows, r.top_k});
    const test::Bounds exact{.f32 = 0};
    forward.check([](Backend& backend, const auto& a) { ops::slot_weights(backend, a["weight"], test::plan_of(a), a["weight_R"]); }, exact, {DType::kF32});
    backward.check([](Backend& backend, const auto& a) { ops::slot_weights_backward(backend, a["dweight_R"], test::plan_of(a), a["dweight"]); }, exact,
                   {DType::kF32});
  }
}

}  // namespace
}  // namespace optimus
