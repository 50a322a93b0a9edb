#include "optimus/comm/two_level/node_map.hpp"

#include <algorithm>
#include <map>

#include "optimus/base/check.hpp"

namespace optimus::two_level {

NodeMap::NodeMap(std::span<const Seat> seats, Index rank) {
  std::map<Index, std::vector<Index>> by_node;
  for (const Seat& seat : seats) by_node[seat.node].push_back(-1);
  for (std::size_t m = 0; m < seats.size(); ++m) {
    auto& members = by_node[seats[m].node];
    const Index place = seats[m].place;
    OPTIMUS_CHECK(place >= 0 && place < static_cast<Index>(members.size()) && members[static_cast<std::size_t>(place)] < 0, "a place taken twice on a node");
    members[static_cast<std::size_t>(place)] = static_cast<Index>(m);
  }
  num_lanes_ = static_cast<Index>(seats.size());
  for (auto& [node, members] : by_node) {
    if (node == seats[static_cast<std::size_t>(rank)].node) node_ = num_nodes();
    num_lanes_ = std::min(num_lanes_, static_cast<Index>(members.size()));
    members_.push_back(std::move(members));
  }
  place_ = seats[static_cast<std::size_t>(rank)].place;

  for (Index lane = 0; lane < num_lanes_; ++lane) {
    lane_begins_.push_back(static_cast<Index>(packed_.size()));
    for (const auto& members : members_)
      for (auto place = static_cast<std::size_t>(lane); place < members.size(); place += static_cast<std::size_t>(num_lanes_))
        packed_.push_back(members[place]);
  }
  lane_begins_.push_back(static_cast<Index>(packed_.size()));
}

Index NodeMap::largest_node() const {
  Index largest = 0;
  for (const auto& members : members_) largest = std::max(largest, static_cast<Index>(members.size()));
  return largest;
}

std::vector<Index> NodeMap::lane_members(Index lane) const {
  std::vector<Index> members;
  for (const auto& on_node : members_) members.push_back(on_node[static_cast<std::size_t>(lane)]);
  return members;
}

Index NodeMap::lane_count(Index lane, Index node) const { return ceil_div(static_cast<Index>(members(node).size()) - lane, num_lanes_); }

}  // namespace optimus::two_level
