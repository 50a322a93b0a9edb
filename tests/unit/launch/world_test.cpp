#include "optimus/launch/world.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "optimus/base/error.hpp"

namespace optimus::launch {
namespace {

std::vector<Host> hosts(int count, Index slots = 0) {
  std::vector<Host> all;
  for (int i = 0; i < count; ++i) all.push_back({"n" + std::to_string(i), slots});
  return all;
}

void expect_world(const WorldRequest& request, const std::vector<Host>& list, Index nodes, Index ranks_per_node) {
  const World world = resolve_world(request, list);
  EXPECT_EQ(world.nodes, nodes);
  EXPECT_EQ(world.ranks_per_node, ranks_per_node);
}

TEST(World, FollowsFromAnyTwoNumbers) {
  expect_world({.ranks = 8, .nodes = 2}, hosts(3), 2, 4);
  expect_world({.ranks = 8, .ranks_per_node = 2}, hosts(5), 4, 2);
  expect_world({.nodes = 3, .ranks_per_node = 2}, hosts(3), 3, 2);
}

TEST(World, OfRanksAloneFollowsFromTheHosts) {
  expect_world({.ranks = 4}, hosts(1), 1, 4);
  expect_world({.ranks = 8}, hosts(4, 4), 2, 4);
  expect_world({.ranks = 8}, hosts(4), 4, 2);
}

TEST(World, RefusesNumbersThatContradictEachOther) {
  EXPECT_THROW((void)resolve_world({.ranks = 8, .nodes = 3}, hosts(3)), ConfigError);
  EXPECT_THROW((void)resolve_world({.ranks = 8, .nodes = 2, .ranks_per_node = 3}, hosts(3)), ConfigError);
  EXPECT_THROW((void)resolve_world({.nodes = 3}, hosts(3)), ConfigError);
  EXPECT_THROW((void)resolve_world({}, hosts(3)), ConfigError);
  EXPECT_THROW((void)resolve_world({.ranks = 5}, hosts(3)), ConfigError);
  EXPECT_THROW((void)resolve_world({.ranks = 8, .nodes = 4}, hosts(3)), ConfigError);
}

/// As a run's configuration answers: the global batch has to divide over the data ranks.
std::string batch_problem(Index ranks, Index global_batch) {
  return global_batch % ranks == 0 ? "" : fmt::format("{} cannot be divided over {}", global_batch, ranks);
}

TEST(Shrinking, TakesTheLargestWorldThatTheBatchDividesOver) {
  std::string refused;
  const World world = largest_fitting_world(7, 2, [](Index ranks) { return batch_problem(ranks, 48); }, refused);
  EXPECT_EQ(world.nodes, 6);
  EXPECT_EQ(world.ranks(), 12);
  EXPECT_THAT(refused, testing::HasSubstr("7 nodes (14 ranks): 48 cannot be divided over 14"));
}

TEST(Shrinking, FindsNoneWhereNoneFits) {
  std::string refused;
  EXPECT_EQ(largest_fitting_world(3, 2, [](Index ranks) { return batch_problem(ranks, 7); }, refused).nodes, 0);
  EXPECT_THAT(refused, testing::HasSubstr("1 node (2 ranks)"));
  EXPECT_EQ(largest_fitting_world(0, 2, [](Index) { return ""; }, refused).nodes, 0);
}

}  // namespace
}  // namespace optimus::launch
