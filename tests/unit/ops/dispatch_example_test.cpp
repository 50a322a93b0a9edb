// The worked example of token counting and index generation: 4 rows, E = 4, K = 2, on one rank and on two. Every list was written by hand.
//
//   row 0 chooses 0, 2;   row 1 chooses 2, 1;   row 2 chooses 0, 1;   row 3 chooses 3, 0
//
// Expert-major on one rank: expert 0 has rows 0, 2, 3; expert 1 rows 1, 2; expert 2 rows 0, 1; expert 3 row 3.
#include <gtest/gtest.h>

#include "optimus/ops/moe.hpp"
#include "tests/support/ops_testing.hpp"

namespace optimus {
namespace {

using test::Tensor;
using Values = std::vector<double>;

struct Lists {
  Values segments, input_indices, row_offsets, output_indices, selected_k;
};

/// The plan of one rank, with the slots in use of each list.
class Example {
 public:
  Example(Backend& backend, Index expert_begin, Index num_experts) : segments_(DType::kI64, {num_experts + 1}) {
    ops::build_dispatch(backend, index_, expert_begin, plan());
  }
  [[nodiscard]] DispatchPlan plan() const { return {segments_, input_, row_offsets_, output_, selected_}; }
  [[nodiscard]] Lists lists() const {
    const auto in_use = [&](const Tensor& list) {
      Values values = list.values();
      values.resize(static_cast<std::size_t>(segments_.values().back()));
      return values;
    };
    return {segments_.values(), in_use(input_), row_offsets_.values(), in_use(output_), in_use(selected_)};
  }

 private:
  Tensor index_ = Tensor(DType::kI32, {4, 2}, {0, 2, /**/ 2, 1, /**/ 0, 1, /**/ 3, 0});
  Tensor segments_, row_offsets_ = Tensor(DType::kI64, {5});
  Tensor input_ = Tensor(DType::kI32, {8}), output_ = Tensor(DType::kI32, {8}), selected_ = Tensor(DType::kI32, {8});
};

void expect_lists(const Lists& got, const Lists& want) {
  EXPECT_EQ(got.segments, want.segments);
  EXPECT_EQ(got.input_indices, want.input_indices);
  EXPECT_EQ(got.row_offsets, want.row_offsets);
  EXPECT_EQ(got.output_indices, want.output_indices);
  EXPECT_EQ(got.selected_k, want.selected_k);
}

class DispatchExample : public testing::TestWithParam<std::size_t> {
 protected:
  [[nodiscard]] static Backend& backend() { return *test::tested_backends()[GetParam()].backend; }
};
INSTANTIATE_TEST_SUITE_P(Backends, DispatchExample, testing::Range(std::size_t{0}, test::tested_backends().size()),
                         [](const auto& instance) { return "backend_" + std::to_string(instance.param); });

TEST_P(DispatchExample, OnOneRank) {
  expect_lists(Example(backend(), 0, 4).lists(), {.segments = {0, 3, 5, 7, 8},
                                                  .input_indices = {0, 2, 3, /**/ 1, 2, /**/ 0, 1, /**/ 3},
                                                  .row_offsets = {0, 2, 4, 6, 8},
                                                  .output_indices = {0, 5, /**/ 6, 3, /**/ 1, 4, /**/ 7, 2},
                                                  .selected_k = {0, 1, /**/ 0, 1, /**/ 0, 1, /**/ 0, 1}});
}

TEST_P(DispatchExample, OnTheFirstOfTwoRanks) {
  expect_lists(Example(backend(), 0, 2).lists(), {.segments = {0, 3, 5},
                                                  .input_indices = {0, 2, 3, /**/ 1, 2},
                                                  .row_offsets = {0, 1, 2, 4, 5},
                                                  .output_indices = {0, /**/ 3, /**/ 1, 4, /**/ 2},
                                                  .selected_k = {0, /**/ 1, /**/ 0, 1, /**/ 1}});
}

TEST_P(DispatchExample, OnTheSecondOfTwoRanksWhereRowTwoHasNoSlot) {
  expect_lists(Example(backend(), 2, 2).lists(), {.segments = {0, 2, 3},
                                                  .input_indices = {0, 1, /**/ 3},
                                                  .row_offsets = {0, 1, 2, 2, 3},
                                                  .output_indices = {0, /**/ 1, /**/ 2},
                                                  .selected_k = {1, /**/ 0, /**/ 0}});
}

TEST_P(DispatchExample, TheTwoRanksOutputsAddUpToTheOneRanks) {
  const Tensor weight(DType::kF32, {4, 2}, {0.5, 0.25, /**/ 0.125, 0.5, /**/ 0.25, 0.25, /**/ 1, 0.5});
  const Example all(backend(), 0, 4), first(backend(), 0, 2), second(backend(), 2, 2);
  const Tensor y(DType::kF32, {4, 1}), y_first(DType::kF32, {4, 1}), y_second(DType::kF32, {4, 1});
  // Outputs of the slots on one rank; each of two ranks has its part, in the same order.
  const Tensor slots(DType::kF32, {8, 1}, {10, 20, 30, 40, 50, 60, 70, 80}), slots_second(DType::kF32, {8, 1}, {60, 70, 80, 0, 0, 0, 0, 0});
  ops::combine_forward(backend(), slots, weight, all.plan(), y);
  ops::combine_forward(backend(), slots, weight, first.plan(), y_first);
  ops::combine_forward(backend(), slots_second, weight, second.plan(), y_second);
  EXPECT_EQ(y.values(), (Values{0.5 * 10 + 0.25 * 60, 0.125 * 70 + 0.5 * 40, 0.25 * 20 + 0.25 * 50, 1 * 80 + 0.5 * 30}));
  EXPECT_EQ(y_first.values(), (Values{5, 20, 17.5, 15}));
  EXPECT_EQ(y_second.values(), (Values{15, 8.75, 0, 80}));
}

}  // namespace
}  // namespace optimus
