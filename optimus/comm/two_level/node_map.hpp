#pragma once
// Which members of a group share a node, and how the work between nodes is divided among those of one node. Arithmetic only.

#include <span>
#include <vector>

#include "optimus/base/index.hpp"

namespace optimus::two_level {

/// Where a member stands: its node, named by the first member there, and its place among the node's members.
struct Seat {
  Index node = 0, place = 0;
};

/// The members of every node, and lanes: as many as the smallest node has members. Lane i runs between the members at place i of all nodes; what
/// goes to the member at place p travels in lane p mod num_lanes. Nodes are ordered by their first members.
class NodeMap {
 public:
  /// `seats` of all members, of which this is member `rank`.  Errors: InternalError if the places of a node are not 0 … n-1, each once.
  NodeMap(std::span<const Seat> seats, Index rank);

  [[nodiscard]] Index num_nodes() const { return static_cast<Index>(members_.size()); }
  [[nodiscard]] Index num_lanes() const { return num_lanes_; }
  [[nodiscard]] Index largest_node() const;
  [[nodiscard]] Index node() const { return node_; }    ///< of this member, 0 … num_nodes-1
  [[nodiscard]] Index place() const { return place_; }  ///< of this member
  [[nodiscard]] bool has_lane() const { return place_ < num_lanes_; }
  /// Members of a node, in the order of their places.
  [[nodiscard]] std::span<const Index> members(Index node) const { return members_[static_cast<std::size_t>(node)]; }
  [[nodiscard]] Index node_size() const { return static_cast<Index>(members(node_).size()); }
  /// The members of lane `lane`, in the order of their nodes.
  [[nodiscard]] std::vector<Index> lane_members(Index lane) const;

  /// All members: by lane, in a lane by node, in a node by place. Parts in this order lie together as they travel together.
  [[nodiscard]] std::span<const Index> packed() const { return packed_; }
  /// Number of members that lane `lane` brings something to, on node `node`.
  [[nodiscard]] Index lane_count(Index lane, Index node) const;
  /// Members [lane_begin(i), lane_begin(i + 1)) of packed() are those of lane i.
  [[nodiscard]] Index lane_begin(Index lane) const { return lane_begins_[static_cast<std::size_t>(lane)]; }

 private:
  Index num_lanes_ = 1, node_ = 0, place_ = 0;
  std::vector<std::vector<Index>> members_;
  std::vector<Index> packed_, lane_begins_;
};

}  // namespace optimus::two_level
