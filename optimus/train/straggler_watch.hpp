#pragma once
// Adds up the work of a rank, and compares it with the others' now and then.

#include <string>
#include <vector>

#include "optimus/comm/mesh.hpp"
#include "optimus/train/run_config.hpp"
#include "optimus/train/stragglers.hpp"

namespace optimus {

/// Collective: construction and end_step(), over `world`.
class StragglerWatch {
 public:
  StragglerWatch(Communicator& world, const Mesh& mesh, const LogConfig& config);
  /// Seconds of a step that this rank worked.
  void add(Work work, double seconds) { sums_[static_cast<std::size_t>(work)] += seconds; }
  /// Every config.interval steps: the slow ranks since the last time, the same on all ranks; the first rank warns of them. Differences below a tenth of a step, and
  /// below 10 ms, are not worth a line. Otherwise nothing.
  [[nodiscard]] std::vector<SlowRank> end_step(Index step, double step_s);

 private:
  Communicator& world_;
  double factor_;
  Index interval_;
  std::vector<Index> stage_;
  std::vector<std::string> hosts_;
  WorkSeconds sums_{};
  double steps_s_ = 0;
  Index num_steps_ = 0;
};

}  // namespace optimus
