#include "optimus/comm/two_level/node_map.hpp"

#include <gtest/gtest.h>

#include "optimus/base/error.hpp"

namespace optimus::two_level {
namespace {

using Members = std::vector<Index>;
Members list(std::span<const Index> members) { return {members.begin(), members.end()}; }

/// Seats of members on the nodes `node_of`, in member order on each.
std::vector<Seat> seats_on(const Members& node_of) {
  std::vector<Seat> seats;
  for (std::size_t m = 0; m < node_of.size(); ++m) {
    Seat seat{static_cast<Index>(m), 0};
    for (std::size_t before = m; before-- > 0;)
      if (node_of[before] == node_of[m]) seat = {static_cast<Index>(before), seat.place + 1};
    seats.push_back(seat);
  }
  return seats;
}

TEST(NodeMap, GivesEachPlaceALaneWhereNodesAreAlike) {
  const auto seats = seats_on({0, 0, 0, 1, 1, 1});
  const NodeMap map(seats, 4);
  EXPECT_EQ(map.num_nodes(), 2);
  EXPECT_EQ(map.num_lanes(), 3);
  EXPECT_EQ(map.node(), 1);
  EXPECT_EQ(map.place(), 1);
  EXPECT_EQ(map.lane_members(1), (Members{1, 4}));
  EXPECT_EQ(list(map.packed()), (Members{0, 3, 1, 4, 2, 5}));
  for (Index lane = 0; lane < 3; ++lane) {
    EXPECT_EQ(map.lane_begin(lane), 2 * lane);
    EXPECT_EQ(map.lane_count(lane, 0), 1);
  }
}

TEST(NodeMap, LetsTheSmallestNodeDecideHowManyLanesThereAre) {
  // Node a: members 0, 2, 5; node b: 1, 4; node c: 3, 6, 7, 8, 9.
  const auto seats = seats_on({0, 1, 0, 2, 1, 0, 2, 2, 2, 2});
  const NodeMap map(seats, 8);
  EXPECT_EQ(map.num_nodes(), 3);
  EXPECT_EQ(map.num_lanes(), 2);
  EXPECT_EQ(map.largest_node(), 5);
  EXPECT_EQ(map.node(), 2);
  EXPECT_EQ(map.place(), 3);
  EXPECT_FALSE(map.has_lane());
  EXPECT_EQ(map.lane_members(1), (Members{2, 4, 6}));
  // Lane 0 brings places 0, 2, 4 of each node, lane 1 places 1, 3.
  EXPECT_EQ(list(map.packed()), (Members{0, 5, 1, 3, 7, 9, 2, 4, 6, 8}));
  EXPECT_EQ(map.lane_count(0, 0), 2);
  EXPECT_EQ(map.lane_count(0, 1), 1);
  EXPECT_EQ(map.lane_count(0, 2), 3);
  EXPECT_EQ(map.lane_count(1, 0), 1);
  EXPECT_EQ(map.lane_count(1, 2), 2);
  EXPECT_EQ(map.lane_begin(1), 6);
  EXPECT_EQ(map.lane_begin(2), 10);
}

TEST(NodeMap, KeepsTheOrderThatANodeGivesItsMembers) {
  const std::vector<Seat> seats = {{0, 1}, {0, 0}, {2, 0}};
  const NodeMap map(seats, 1);
  EXPECT_EQ(list(map.members(0)), (Members{1, 0}));
  EXPECT_EQ(list(map.packed()), (Members{1, 0, 2}));
}

TEST(NodeMap, TakesOneNodeAndNodesOfOne) {
  const auto together = seats_on({0, 0, 0}), apart = seats_on({0, 1, 2});
  EXPECT_EQ(NodeMap(together, 0).num_lanes(), 3);
  EXPECT_EQ(NodeMap(apart, 2).num_lanes(), 1);
  EXPECT_EQ(NodeMap(apart, 2).largest_node(), 1);
}

TEST(NodeMap, RefusesTwoMembersAtOnePlace) {
  const std::vector<Seat> twice = {{0, 0}, {0, 0}}, beyond = {{0, 0}, {0, 2}};
  EXPECT_THROW(NodeMap(twice, 0), InternalError);
  EXPECT_THROW(NodeMap(beyond, 0), InternalError);
}

}  // namespace
}  // namespace optimus::two_level
