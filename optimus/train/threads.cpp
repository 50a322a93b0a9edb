#include <algorithm>
#include <cstdlib>

#include "optimus/base/topology.hpp"
#include "optimus/train/trainer.hpp"

namespace optimus {

int choose_threads(Communicator& world) {
  const char* text = std::getenv("OMP_NUM_THREADS");  // NOLINT(concurrency-mt-unsafe): nobody sets it while we run
  const int wanted = text != nullptr ? std::atoi(text) : 0;
  const Topology topology = read_topology();
  // Starters may pin each rank to processors of its own, or leave all on all: ranks share cores only where they may use the same ones.
  const auto node = world.split_by_node();
  const auto bindings = all_gather_text(*node, topology.bound_to);
  const Index sharing = std::count(bindings.begin(), bindings.end(), topology.bound_to);
  if (wanted > 0) return wanted;
  return narrow<int>(std::max<Index>(1, topology.usable_cores / sharing));
}

}  // namespace optimus
