// Token counting and index generation worked by hand: the setting of figure 5 of arXiv:2604.00785, four rows, four experts, two choices each.
//
//   row 0 → experts 1, 3     row 1 → 0, 1     row 2 → 3, 0     row 3 → 1, 2

#include "optimus/model/moe/dispatch.hpp"

#include <gtest/gtest.h>

#include "optimus/comm/dry/dry.hpp"
#include "optimus/model/moe/experts.hpp"
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

/// What a dispatcher looks at.
struct Setting {
  explicit Setting(Index ranks) : group(ranks > 1 ? make_dry_communicator(ranks, ranks - 1, "ep") : nullptr) {}
  [[nodiscard]] MoeContext context(const Dispatcher& dispatcher) {
    return {.backend = *backend,
            .arena = arena,
            .kept = &arena,
            .dispatcher = dispatcher,
            .config = config,
            .shape = {.hidden_size = 4, .intermediate_size = 3, .num_experts = 6, .top_k = 2},
            .tp = nullptr,
            .ep = group.get(),
            .dtype = DType::kF32,
            .wide = DType::kF32,
            .is_planning = true,
            .overlap = true};
  }
  std::unique_ptr<Backend> backend = test::make_backend("ref");
  Arena arena = Arena::measuring();
  MoeConfig config;
  std::unique_ptr<Communicator> group;
};

TEST(Dispatchers, OneRankHoldsAllExpertsAndSeesItsOwnRows) {
  Setting setting(1);
  const auto dispatcher = make_dispatcher("all_to_all", nullptr);
  const MoeContext c = setting.context(*dispatcher);
  EXPECT_EQ(local_experts(c).begin, 0);
  EXPECT_EQ(local_experts(c).count, 6);
  EXPECT_EQ(dispatcher->row_capacity(c, 5), 5);
  EXPECT_EQ(dispatcher->row_capacity(c, 0), 0);
  EXPECT_EQ(setting.arena.used(), 0);
}

TEST(Dispatchers, HaveRoomForAllRowsOfAllRanks) {
  for (const char* name : {"all_gather", "all_to_all"}) {
    Setting setting(3);
    const auto dispatcher = make_dispatcher(name, setting.group.get());
    const MoeContext c = setting.context(*dispatcher);
    EXPECT_EQ(local_experts(c).begin, 4);
    EXPECT_EQ(local_experts(c).count, 2);
    EXPECT_EQ(dispatcher->row_capacity(c, 5), 15) << name;
    EXPECT_EQ(allocate_part(c, {.begin = 0, .count = 5}, 2).x_RD.shape(), (Shape{30, 4})) << name << ": every row with both choices here";
  }
}

TEST(Dispatchers, TakeTheMemoryThatTheFormulaSays) {
  for (const bool is_all_to_all : {false, true}) {
    Setting setting(3);
    const auto dispatcher = make_dispatcher(is_all_to_all ? "all_to_all" : "all_gather", setting.group.get());
    const Index P = 3, t = 1000, K = 2, D = 4, F = 3, C = P * t * K;
    (void)allocate_part(setting.context(*dispatcher), {.begin = 0, .count = t}, 2);
    const Index bytes = C * (D + 2 * F) * 4 + 16 * C + 8 * (P * t + 1) + (is_all_to_all ? 12 * t * K + 8 * (t + 1) : 0);
    EXPECT_NEAR(static_cast<double>(setting.arena.used()), static_cast<double>(bytes), 64.0 * 16) << "each of 16 tensors begins at a cache line";
  }
}

TEST(Dispatchers, OfAnotherNameAreRefused) {
  const auto group = make_dry_communicator(2, 0, "ep");
  EXPECT_THROW((void)make_dispatcher("pigeons", group.get()), ConfigError);
}

}  // namespace
}  // namespace optimus
