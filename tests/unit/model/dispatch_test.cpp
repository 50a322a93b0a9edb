// Token counting and index generation worked by hand: the setting of figure 5 of arXiv:2604.00785, four rows, four experts, two choices each.
//
//   row 0 → experts 1, 3     row 1 → 0, 1     row 2 → 3, 0     row 3 → 1, 2

#include "optimus/model/moe/dispatch.hpp"

#include <gtest/gtest.h>

#include "optimus/ops/moe.hpp"
#include "tests/support/model_testing.hpp"

namespace optimus {
namespace {

using Ints = std::vector<std::int32_t>;
using Longs = std::vector<std::int64_t>;

struct Lists {
  Longs segments, row_offsets;
  Ints input_indices, output_indices, selected_k;
};

template <class T> View view_of(std::vector<T>& values) {
  return {reinterpret_cast<std::byte*>(values.data()), dtype_of<T>, {static_cast<Index>(values.size())}};
}

/// The plan of experts [begin, begin + count), lists cut to the slots in use.
Lists plan(std::string_view backend_name, Index begin, Index count) {
  Ints index{1, 3, 0, 1, 3, 0, 1, 2};
  Lists lists{Longs(static_cast<std::size_t>(count + 1)), Longs(5), Ints(8, -7), Ints(8, -7), Ints(8, -7)};
  const auto backend = test::make_backend(backend_name);
  ops::build_dispatch(*backend, view_of(index).reshaped({4, 2}), begin,
                      {.segments_e = view_of(lists.segments),
                       .input_indices_R = view_of(lists.input_indices),
                       .row_offsets_T = view_of(lists.row_offsets),
                       .output_indices_R = view_of(lists.output_indices),
                       .selected_k_R = view_of(lists.selected_k)});
  for (Ints* list : {&lists.input_indices, &lists.output_indices, &lists.selected_k}) list->resize(static_cast<std::size_t>(lists.segments.back()));
  return lists;
}

class WorkedExample : public testing::TestWithParam<const char*> {};

TEST_P(WorkedExample, OnOneRank) {
  const Lists p = plan(GetParam(), 0, 4);
  EXPECT_EQ(p.segments, (Longs{0, 2, 5, 6, 8}));
  EXPECT_EQ(p.input_indices, (Ints{1, 2, 0, 1, 3, 3, 0, 2}));  // expert 0: rows 1, 2; expert 1: 0, 1, 3; expert 2: 3; expert 3: 0, 2
  EXPECT_EQ(p.row_offsets, (Longs{0, 2, 4, 6, 8}));
  EXPECT_EQ(p.output_indices, (Ints{2, 6, 0, 3, 7, 1, 4, 5}));
  EXPECT_EQ(p.selected_k, (Ints{0, 1, 0, 1, 0, 1, 0, 1}));
}

TEST_P(WorkedExample, OnTwoRanksOfTwoExperts) {
  const Lists first = plan(GetParam(), 0, 2), second = plan(GetParam(), 2, 2);
  EXPECT_EQ(first.segments, (Longs{0, 2, 5}));
  EXPECT_EQ(first.input_indices, (Ints{1, 2, 0, 1, 3}));
  EXPECT_EQ(first.row_offsets, (Longs{0, 1, 3, 4, 5}));
  EXPECT_EQ(first.output_indices, (Ints{2, 0, 3, 1, 4}));
  EXPECT_EQ(first.selected_k, (Ints{0, 0, 1, 1, 0}));
  EXPECT_EQ(second.segments, (Longs{0, 1, 3}));
  EXPECT_EQ(second.input_indices, (Ints{3, 0, 2}));
  EXPECT_EQ(second.row_offsets, (Longs{0, 1, 1, 2, 3}));
  EXPECT_EQ(second.output_indices, (Ints{1, 2, 0}));
  EXPECT_EQ(second.selected_k, (Ints{1, 0, 1}));
}

INSTANTIATE_TEST_SUITE_P(Backends, WorkedExample, testing::Values("ref", "cpu"), [](const auto& one) { return std::string(one.param); });

TEST(LocalDispatcher, HoldsAllExpertsAndRoomForEveryChoice) {
  const auto dispatcher = make_local_dispatcher();
  const MoeShape shape{.hidden_size = 4, .intermediate_size = 3, .num_experts = 6, .top_k = 2};
  EXPECT_EQ(dispatcher->local_experts(shape), 6);
  EXPECT_EQ(dispatcher->slot_capacity(shape, 5), 10);
  EXPECT_EQ(dispatcher->slot_capacity(shape, 0), 0);
}

}  // namespace
}  // namespace optimus
