#pragma once
// Signs of life of all ranks, so that whoever waits in vain can say for whom.

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "optimus/comm/communicator.hpp"
#include "optimus/train/activity.hpp"

namespace optimus {

/// Where a rank was when it was last heard of.
struct RankPlace {
  Index rank = 0, step = 0;
  Activity activity = Activity::kStart;
  Index micro_batch = -1;
  double silent_s = 0;  ///< since its last sign of life
};

/// "step 12, backward of micro-batch 3"
[[nodiscard]] std::string describe(const RankPlace& place);

/// Each rank has a few words in memory that the ranks of a node share. They are renewed by note(), and whenever the rank waits for others or lets transfers go
/// on: who waits is alive, who has stopped, hangs or is stuck in a file or a call falls silent. Costs some nanoseconds each time and no message.
///
/// Ranks on other nodes are known through the run folder: where there are several nodes a thread of each node's first rank writes what its node shows to
/// heartbeats/node-R (R: that rank), every `interval_s`. A node that writes no more is silent as a whole.
///
/// Collective: construction, over `world`. Once it is made nothing of it is in the file system of a node, however the ranks end.
class Heartbeats final : public Progress {
 public:
  /// `world` must outlive it.  Errors: FileError if a node has no shared memory, on its ranks.
  Heartbeats(Communicator& world, const std::filesystem::path& run_dir, double interval_s);
  ~Heartbeats() override;
  Heartbeats(const Heartbeats&) = delete;
  Heartbeats& operator=(const Heartbeats&) = delete;

  /// The run folder is this run's: other nodes may be told through it from here on.
  void start_writing();
  /// From here on this rank is at `place`.
  void note(Index step, const Place& place) noexcept;
  /// A sign of life.
  void advance() override;

  /// Ranks that have been silent for `at_least_s`, and at least half as long as the one that has been longest; that one first. Not collective: any rank, any time.
  [[nodiscard]] std::vector<RankPlace> silent(double at_least_s) const;
  /// This rank.
  [[nodiscard]] RankPlace mine() const;
  /// All ranks that this one can see.
  [[nodiscard]] std::vector<RankPlace> all() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What a node's first rank writes about it, and back again. `now_s`: of a clock that nodes share.  Errors: FileError.
void write_node_heartbeats(const std::filesystem::path& file, const std::vector<RankPlace>& places, double now_s);
/// Empty if there is no whole file.
[[nodiscard]] std::vector<RankPlace> read_node_heartbeats(const std::filesystem::path& file, double now_s);

}  // namespace optimus
