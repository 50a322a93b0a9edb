#pragma once
// How many nodes a run uses, how many ranks each gets, and what is left when there are fewer. Arithmetic only.

#include <functional>
#include <string>
#include <vector>

#include "optimus/launch/hosts.hpp"

namespace optimus::launch {

/// What the command line says; 0: not given.
struct WorldRequest {
  Index ranks = 0, nodes = 0, ranks_per_node = 0;
};

/// `nodes` of the hosts hold `ranks_per_node` each; the other hosts are buffer nodes.
struct World {
  Index nodes = 1, ranks_per_node = 1;
  [[nodiscard]] Index ranks() const { return checked_mul(nodes, ranks_per_node); }
};

/// Two of ranks, nodes and ranks per node give the third. Ranks alone: the hosts' slots if these are known and equal, else all hosts share them.
/// Errors: ConfigError with the numbers if they contradict each other, do not divide, or there are fewer hosts than nodes.
[[nodiscard]] World resolve_world(const WorldRequest& request, const std::vector<Host>& hosts);

/// The largest world of at most `nodes` nodes that the run's configuration can be computed in.
///
/// `problem_with(ranks)` says why not, or nothing. Worlds that do not fit are added to `refused`, a line each. Returns 0 nodes if none fits.
[[nodiscard]] World largest_fitting_world(Index nodes, Index ranks_per_node, const std::function<std::string(Index ranks)>& problem_with, std::string& refused);

}  // namespace optimus::launch
