#pragma once
// Groups that know which members share a node, and keep what can stay inside it off the network.

#include <functional>
#include <memory>
#include <string_view>

#include "optimus/comm/axis_group.hpp"
#include "optimus/comm/communicator.hpp"

namespace optimus {

/// The members of `group` on this rank's node: split_by_node(), or something else in tests.
using NodeSplit = std::function<std::unique_ptr<Communicator>(Communicator& group)>;
[[nodiscard]] std::unique_ptr<Communicator> by_node(Communicator& group);

struct TwoLevelTuning {
  Index piece_bytes = Index{2} << 20;  ///< memory of one piece, with its parts of all members; at most four are under way
};

/// `group`, of which `node` are the members on this rank's node, with collectives of two levels.
///
/// all_reduce, reduce_scatter and all_gather, blocking or not, exchange inside the nodes first, then between them; of what a node sends, each member
/// sends an equal share, where the smallest node has as many members as the largest. Nodes may have any number of members, in any order. All else
/// goes straight through `group`.
///
/// Collective: over `group`.
/// Numerics:   sums of each node, in the node's order, are added in the order of the nodes' first members: a repeated run gives the same bits, but
///             not those of `group`. bf16 is rounded once a level.
[[nodiscard]] std::unique_ptr<Communicator> make_two_level_communicator(std::unique_ptr<Communicator> group, std::unique_ptr<Communicator> node,
                                                                        const TwoLevelTuning& tuning = {});

/// make_axis_group() for gradients and weights, as `parallel.two_level` says: "on", "off", or "auto": with two levels where several nodes take part
/// and one of them has several members. A group of one, or one that is dry, stays as it is. Rank 0 logs two levels.
///
/// Collective: over the members of the group.
[[nodiscard]] std::unique_ptr<Communicator> make_reduction_group(Communicator& world, const Mesh& mesh, Axis axis, std::string_view two_level,
                                                                 const NodeSplit& split = by_node);

}  // namespace optimus
