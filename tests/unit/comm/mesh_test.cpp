#include "optimus/comm/mesh.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace optimus {
namespace {

TEST(Mesh, PutsTensorParallelRanksNextToEachOther) {
  const Mesh mesh({.tp = 2, .ep = 2, .pp = 2}, 16);  // dp 2
  EXPECT_EQ(mesh.dp(), 2);
  // Worked by hand: 13 = ((1*2 + 1)*2 + 0)*2 + 1.
  const Coordinates c = mesh.coordinates(13);
  EXPECT_EQ(c.dp, 1);
  EXPECT_EQ(c.pp, 1);
  EXPECT_EQ(c.ep, 0);
  EXPECT_EQ(c.tp, 1);
  EXPECT_EQ(mesh.data_index(13), 2);
  EXPECT_EQ(mesh.member_rank(13, Axis::kDp, 0), 5);
  EXPECT_EQ(mesh.member_rank(13, Axis::kPp, 0), 9);
  EXPECT_EQ(mesh.member_rank(13, Axis::kEp, 1), 15);
  EXPECT_EQ(mesh.member_rank(13, Axis::kTp, 0), 12);
}

TEST(Mesh, PutsPipelineStagesFarthestApartInTheOtherOrder) {
  const Mesh mesh({.tp = 2, .ep = 2, .pp = 2, .order = "pp-dp-ep-tp"}, 16);
  // 13 = ((1*2 + 1)*2 + 0)*2 + 1 with pp and dp exchanged; stage 0 of it is rank 5.
  EXPECT_EQ(mesh.member_rank(13, Axis::kPp, 0), 5);
  EXPECT_EQ(mesh.member_rank(13, Axis::kDp, 0), 9);
  EXPECT_EQ(mesh.coordinates(8).pp, 1);
  EXPECT_EQ(mesh.coordinates(8).dp, 0);
}

void expect_consistent(const Mesh& mesh, Index step) {
  for (Index rank = 0; rank < mesh.world(); rank += step) {
    ASSERT_EQ(mesh.rank_of(mesh.coordinates(rank)), rank);
    for (const Axis axis : kAxes) {
      const Index mine = mesh.member_index(rank, axis);
      ASSERT_EQ(mesh.member_rank(rank, axis, mine), rank);
      const Index last = mesh.member_rank(rank, axis, mesh.group_size(axis) - 1);
      ASSERT_EQ(mesh.member_index(last, axis), mesh.group_size(axis) - 1);
      ASSERT_EQ(mesh.group_index(last, axis), mesh.group_index(rank, axis));
      ASSERT_LT(mesh.group_index(rank, axis), mesh.world() / mesh.group_size(axis));
    }
  }
}

TEST(Mesh, IsConsistentForLargeWorldsInBothOrders) {
  for (const char* order : {"dp-pp-ep-tp", "pp-dp-ep-tp"}) {
    expect_consistent(Mesh({.tp = 1, .ep = 12, .pp = 8, .order = order}, 12'288), 1);
    expect_consistent(Mesh({.tp = 5, .ep = 10, .pp = 4, .order = order}, 100'000), 7);
  }
}

TEST(Mesh, DividesTheWorldIntoGroupsOfEveryAxis) {
  for (const char* order : {"dp-pp-ep-tp", "pp-dp-ep-tp"}) {
    const Mesh mesh({.tp = 3, .ep = 2, .pp = 5, .order = order}, 60);
    for (const Axis axis : kAxes) {
      std::map<Index, std::set<Index>> groups;
      for (Index rank = 0; rank < 60; ++rank) groups[mesh.group_index(rank, axis)].insert(mesh.member_index(rank, axis));
      EXPECT_EQ(static_cast<Index>(groups.size()), 60 / mesh.group_size(axis));
      for (const auto& [group, members] : groups) EXPECT_EQ(static_cast<Index>(members.size()), mesh.group_size(axis)) << group;
    }
  }
}

TEST(Mesh, NumbersTheDataRanksWithoutHoles) {
  const Mesh mesh({.tp = 2, .ep = 3, .pp = 2}, 24);
  std::map<Index, Index> uses;
  for (Index rank = 0; rank < 24; ++rank) ++uses[mesh.data_index(rank)];
  EXPECT_EQ(static_cast<Index>(uses.size()), mesh.data_ranks());
  for (const auto& [index, count] : uses) EXPECT_EQ(count, 4) << index;
}

void expect_refused(const ParallelConfig& config, Index world, const std::vector<std::string>& parts) {
  Problems problems;
  validate_layout(config, world, problems);
  ASSERT_EQ(problems.items().size(), 1U);
  for (const std::string& part : parts) EXPECT_NE(problems.items()[0].message.find(part), std::string::npos) << problems.items()[0].message;
  EXPECT_THROW(Mesh(config, world), ConfigError);
}

TEST(Mesh, RefusesLayoutsThatDoNotDivideTheWorldNamingBothNumbers) {
  expect_refused({.tp = 4}, 6, {"4", "world of 6"});
  expect_refused({.tp = 2, .ep = 2, .pp = 2}, 4, {"= 8", "world of 4"});
  expect_refused({.tp = 0}, 4, {"tp 0", "at least 1"});
  expect_refused({}, 0, {"world of 0"});
  expect_refused({.tp = Index{1} << 40, .ep = Index{1} << 40}, 8, {"world of 8"});
  EXPECT_THROW(Mesh({.order = "tp-first"}, 1), ConfigError);
}

TEST(Mesh, AcceptsLayoutsThatFit) {
  Problems problems;
  validate({.pp = 2, .pipeline_schedule = "interleaved", .virtual_stages = 2, .layers_per_stage = {1, 1, 1, 1}}, problems);
  validate({.pp = 3, .layers_per_stage = {4, 3, 3}}, problems);
  validate_layout({.tp = 2, .ep = 3}, 12, problems);
  EXPECT_TRUE(problems.empty());
}

TEST(Mesh, ReportsAllContradictionsBetweenStagesAndSchedule) {
  Problems problems;
  validate({.pp = 1, .pipeline_schedule = "gpipe", .virtual_stages = 2, .layers_per_stage = {4, 3}}, problems);
  ASSERT_EQ(problems.items().size(), 3U);
  EXPECT_EQ(problems.items()[0].key, "parallel.virtual_stages");
  EXPECT_EQ(problems.items()[2].key, "parallel.layers_per_stage");
  EXPECT_NE(problems.items()[2].message.find("2 numbers for 1 stage;"), std::string::npos);
}

}  // namespace
}  // namespace optimus
