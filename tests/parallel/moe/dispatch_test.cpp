// The setting of figure 5 of arXiv:2604.00785 on two ranks, worked by hand: four rows, four experts, two choices each. Rank 0 has rows 0, 1 and experts 0, 1.
//
//   row 0 → experts 1, 3     row 1 → 0, 1     row 2 → 3, 0     row 3 → 1, 2

#include "optimus/model/moe/dispatch.hpp"

#include <gtest/gtest.h>

#include "optimus/model/moe/experts.hpp"
#include "optimus/ops/moe.hpp"
#include "tests/support/model_testing.hpp"
#include "tests/support/mpi/mpi_world.hpp"
#include "tests/support/ops_testing.hpp"

namespace optimus::test {
namespace {

using Numbers = std::vector<double>;
using Ints = std::vector<std::int32_t>;
using Longs = std::vector<std::int64_t>;

template <class T> std::vector<T> first(ConstView list, Index count) {
  const auto all = list.rows(0, count).span<T>();
  return {all.begin(), all.end()};
}

/// The rows of this rank, which begin at 10, 20, 30, 40, on their way.
struct Example {
  explicit Example(const char* name) : dispatcher(make_dispatcher(name, group.get())) {
    dispatcher->decide(context, index, std::span(&part.route, 1));
    at_hand = dispatcher->rows_at_hand(context, part.route);
    indices = dispatcher->start_dispatch(context, part.route, index);
    rows = dispatcher->start_dispatch(context, part.route, x);
    indices.wait();
    rows.wait();
    plan = part.plan;
    plan.row_offsets_T = part.plan.row_offsets_T.rows(0, at_hand + 1);
    ops::build_dispatch(*backend, indices.arrived_NW, local_experts(context).begin, plan);
  }
  [[nodiscard]] Index num_slots() const { return plan.segments_e.span<Index>().back(); }

  const Index rank = world().rank();
  std::unique_ptr<Communicator> group = world().split(rank / 2, rank, "ep");
  std::unique_ptr<Backend> backend = make_backend("ref");
  Arena kept{1 << 16}, temporaries{1 << 16};
  MoeConfig config;
  std::unique_ptr<Dispatcher> dispatcher;
  MoeContext context{.backend = *backend,
                     .arena = temporaries,
                     .kept = &kept,
                     .dispatcher = *dispatcher,
                     .config = config,
                     .shape = {.hidden_size = 2, .intermediate_size = 1, .num_experts = 4, .top_k = 2},
                     .tp = nullptr,
                     .ep = group.get(),
                     .dtype = DType::kF64,
                     .wide = DType::kF64,
                     .is_planning = false,
                     .overlap = true};
  Tensor index{DType::kI32, {2, 2}, rank == 0 ? Numbers{1, 3, 0, 1} : Numbers{3, 0, 1, 2}};
  Tensor x{DType::kF64, {2, 2}, rank == 0 ? Numbers{10, 11, 20, 21} : Numbers{30, 31, 40, 41}};
  ExpertsPart part = allocate_part(context, {.begin = 0, .count = 2}, 2);
  Index at_hand = 0;
  Traffic indices, rows;
  DispatchPlan plan;
};

void expect_lists(const Example& example, const Longs& segments, const Ints& input_indices, const Longs& row_offsets, const Ints& output_indices,
                  const Ints& selected_k) {
  const Index slots = example.num_slots();
  EXPECT_EQ(first<std::int64_t>(example.plan.segments_e, 3), segments);
  EXPECT_EQ(first<std::int32_t>(example.plan.input_indices_R, slots), input_indices);
  EXPECT_EQ(first<std::int64_t>(example.plan.row_offsets_T, example.at_hand + 1), row_offsets);
  EXPECT_EQ(first<std::int32_t>(example.plan.output_indices_R, slots), output_indices);
  EXPECT_EQ(first<std::int32_t>(example.plan.selected_k_R, slots), selected_k);
}

/// Expert j's output is 100 j + its input, every weight 1: what row t gets is known without computing.
void expect_sums(Example& example) {
  const Index slots = example.num_slots();
  const Tensor outputs(DType::kF64, {example.part.x_RD.size(0), 2}), ones(DType::kF64, {example.at_hand, 2}, constant(1, example.at_hand * 2));
  ops::gather_rows(*example.backend, example.rows.arrived_NW, example.plan, outputs);
  const auto segments = first<std::int64_t>(example.plan.segments_e, 3);
  for (Index slot = 0; slot < slots; ++slot) {
    const Index expert = local_experts(example.context).begin + (slot < segments[1] ? 0 : 1);
    for (Index d = 0; d < 2; ++d) outputs.set(slot * 2 + d, outputs[slot * 2 + d] + 100.0 * static_cast<double>(expert));
  }
  const Tensor y(DType::kF64, {2, 2});
  example.dispatcher->prepare_combine(example.context, example.part.route, y, example.rows);
  ops::combine_forward(*example.backend, outputs, ones, example.plan, example.rows.sums_NW);
  example.dispatcher->start_combine(example.context, example.part.route, example.rows);
  example.dispatcher->finish_combine(example.context, example.part.route, example.rows);
  // Twice the row and 100 times the sum of its experts: 4, 1, 3, 3.
  EXPECT_EQ(y.values(), example.rank == 0 ? (Numbers{420, 422, 140, 142}) : (Numbers{360, 362, 380, 382}));
}

TEST(WorkedExampleOnTwoRanks, AllGatherBringsAllRowsToBoth) {
  if (world().size() != 2) return;
  Example example("all_gather");
  EXPECT_EQ(to_double(example.rows.arrived_NW), (Numbers{10, 11, 20, 21, 30, 31, 40, 41}));
  if (example.rank == 0) expect_lists(example, {0, 2, 5}, {1, 2, 0, 1, 3}, {0, 1, 3, 4, 5}, {2, 0, 3, 1, 4}, {0, 0, 1, 1, 0});
  else expect_lists(example, {0, 1, 3}, {3, 0, 2}, {0, 1, 1, 2, 3}, {1, 2, 0}, {1, 0, 1});
  expect_sums(example);
}

TEST(WorkedExampleOnTwoRanks, AllToAllBringsEachRowOnceToTheRanksThatItChose) {
  if (world().size() != 2) return;
  Example example("all_to_all");
  // Rows 0, 2 and 3 have experts on both ranks; row 1 has both of its on rank 0, and goes there once.
  EXPECT_EQ(first<std::int64_t>(example.part.route.counts_2P, 4), example.rank == 0 ? (Longs{2, 1, 2, 2}) : (Longs{2, 2, 1, 2}));
  if (example.rank == 0) {
    EXPECT_EQ(to_double(example.rows.arrived_NW), (Numbers{10, 11, 20, 21, 30, 31, 40, 41}));
    expect_lists(example, {0, 2, 5}, {1, 2, 0, 1, 3}, {0, 1, 3, 4, 5}, {2, 0, 3, 1, 4}, {0, 0, 1, 1, 0});
  } else {
    EXPECT_EQ(to_double(example.rows.arrived_NW), (Numbers{10, 11, 30, 31, 40, 41}));
    expect_lists(example, {0, 1, 3}, {2, 0, 1}, {0, 1, 2, 3}, {1, 2, 0}, {1, 0, 1});
  }
  expect_sums(example);
}

}  // namespace
}  // namespace optimus::test
