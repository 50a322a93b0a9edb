#include "optimus/launch/world.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "optimus/base/counted.hpp"
#include "optimus/base/error.hpp"

namespace optimus::launch {
namespace {

Index divided(Index ranks, Index by, const char* what) {
  if (ranks % by != 0)
    throw ConfigError(fmt::format("[launch] {} cannot be divided over {} {}; change --ranks or the division", counted(ranks, "rank"), by, what));
  return ranks / by;
}

/// Only the number of ranks is known.
World spread(Index ranks, const std::vector<Host>& hosts) {
  const auto count = static_cast<Index>(hosts.size());
  if (count == 1) return {.nodes = 1, .ranks_per_node = ranks};
  const Index slots = hosts.front().slots;
  const bool has_equal_slots = slots > 0 && std::all_of(hosts.begin(), hosts.end(), [&](const Host& host) { return host.slots == slots; });
  if (has_equal_slots && ranks % slots == 0 && ranks / slots <= count) return {.nodes = ranks / slots, .ranks_per_node = slots};
  if (ranks % count == 0) return {.nodes = count, .ranks_per_node = ranks / count};
  throw ConfigError(fmt::format("[launch] it is not clear how {} spread over {} hosts; give --nodes or --ranks-per-node", counted(ranks, "rank"), count));
}

}  // namespace

World resolve_world(const WorldRequest& r, const std::vector<Host>& hosts) {
  if (r.ranks == 0 && (r.nodes == 0 || r.ranks_per_node == 0)) throw ConfigError("[launch] give --ranks, or both --nodes and --ranks-per-node");
  World world;
  if (r.nodes > 0 && r.ranks_per_node > 0) world = {r.nodes, r.ranks_per_node};
  else if (r.nodes > 0) world = {r.nodes, divided(r.ranks, r.nodes, "nodes")};
  else if (r.ranks_per_node > 0) world = {divided(r.ranks, r.ranks_per_node, "ranks a node"), r.ranks_per_node};
  else world = spread(r.ranks, hosts);
  if (r.ranks > 0 && world.ranks() != r.ranks)
    throw ConfigError(
        fmt::format("[launch] --nodes {} x --ranks-per-node {} is {}, but --ranks is {}", world.nodes, world.ranks_per_node, world.ranks(), r.ranks));
  if (world.nodes > static_cast<Index>(hosts.size()))
    throw ConfigError(fmt::format("[launch] the run needs {}, the list of hosts has {}", counted(world.nodes, "node"), hosts.size()));
  return world;
}

World largest_fitting_world(Index nodes, Index ranks_per_node, const std::function<std::string(Index)>& problem_with, std::string& refused) {
  for (Index n = nodes; n > 0; --n) {
    const std::string problem = problem_with(n * ranks_per_node);
    if (problem.empty()) return {n, ranks_per_node};
    refused += fmt::format("\n  {} ({}): {}", counted(n, "node"), counted(n * ranks_per_node, "rank"), problem);
  }
  return {0, ranks_per_node};
}

}  // namespace optimus::launch
