#include <gtest/gtest.h>

#include <filesystem>

#include "optimus/base/file.hpp"
#include "optimus/comm/self/self.hpp"
#include "optimus/train/heartbeats.hpp"
#include "optimus/train/stragglers.hpp"

namespace optimus {
namespace {

/// Ranks that need `forward` seconds for forward and backward, and the same for all else.
std::vector<WorkSeconds> times(const std::vector<double>& forward) {
  std::vector<WorkSeconds> all;
  for (const double seconds : forward) all.push_back({0.1, seconds, 0.1, 0.1});
  return all;
}

TEST(Stragglers, TheSlowOneOfAStageIsNamedWithItsPhase) {
  const auto found = find_stragglers(times({1, 1.1, 2, 0.9}), {0, 0, 0, 0}, 1.5, {});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 2);
  EXPECT_EQ(found[0].work, Work::kForwardBackward);
  EXPECT_DOUBLE_EQ(found[0].seconds, 2);
  EXPECT_DOUBLE_EQ(found[0].median_s, 1);
}

TEST(Stragglers, AStageWithMoreToDoIsNotSlow) {
  EXPECT_TRUE(find_stragglers(times({1, 1, 3, 3}), {0, 0, 1, 1}, 1.5, {}).empty());
  ASSERT_EQ(find_stragglers(times({1, 1, 3, 6}), {0, 0, 1, 1}, 1.5, {}).size(), 1U);
}

TEST(Stragglers, OfTwoRanksTheSlowerIsNamed) {
  const auto found = find_stragglers(times({5, 1}), {0, 0}, 1.5, {});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 0);
}

TEST(Stragglers, StagesOfOneRankAreComparedWithAll) {
  const auto found = find_stragglers(times({1, 1, 1, 4}), {0, 1, 2, 3}, 1.5, {});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].rank, 3);
}

TEST(Stragglers, SmallDifferencesAreNotWorthALine) {
  WorkSeconds least_s{};
  least_s.fill(0.01);
  EXPECT_TRUE(find_stragglers(times({0.001, 0.005}), {0, 0}, 1.5, least_s).empty());
  EXPECT_FALSE(find_stragglers(times({0.01, 0.05}), {0, 0}, 1.5, least_s).empty());
}

TEST(Heartbeats, SayWhereARankIsAndHowLongItHasBeenSilent) {
  const auto world = make_self_communicator();
  Heartbeats beats(*world, std::filesystem::temp_directory_path(), 1);
  beats.note(7, {.activity = Activity::kBackward, .micro_batch = 3});
  EXPECT_EQ(describe(beats.mine()), "step 7, backward of micro-batch 3");
  EXPECT_LT(beats.mine().silent_s, 5);
  EXPECT_TRUE(beats.silent(60).empty());
  EXPECT_EQ(beats.silent(0).size(), 1U);
}

TEST(Heartbeats, OfANodeAreReadBackWithTheTimeThatHasPassed) {
  const auto file = std::filesystem::temp_directory_path() / "optimus-heartbeats-test";
  write_node_heartbeats(file, {{.rank = 4, .step = 9, .activity = Activity::kSave, .micro_batch = -1, .silent_s = 2}}, 1000);
  const auto places = read_node_heartbeats(file, 1010);
  ASSERT_EQ(places.size(), 1U);
  EXPECT_EQ(places[0].rank, 4);
  EXPECT_EQ(describe(places[0]), "step 9, save");
  EXPECT_NEAR(places[0].silent_s, 12, 0.01) << "a node that has stopped writing falls silent";
  std::filesystem::remove(file);
  EXPECT_TRUE(read_node_heartbeats(file, 1010).empty());
}

}  // namespace
}  // namespace optimus
