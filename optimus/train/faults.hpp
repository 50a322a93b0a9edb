#pragma once
// Failures made on purpose, as `[[faults]]` asks, so that drills and tests meet them at a known place.

#include <filesystem>
#include <mutex>
#include <vector>

#include "optimus/comm/placement.hpp"
#include "optimus/comm/watched/watched.hpp"
#include "optimus/train/activity.hpp"
#include "optimus/train/fault_config.hpp"
#include "optimus/train/train_step.hpp"

namespace optimus {

/// The faults of one rank. A fault with `once` leaves a mark in the run folder before it strikes, which a restarted run finds. Threads that write checkpoints may
/// call beside the one that trains.
class FaultInjector {
 public:
  FaultInjector(const RunConfig& config, const Mesh& mesh, Index rank);
  /// Adds to `hooks` what spoils numbers in this step; `train_step` and `transfers` outlive them.
  void arm(Index step, TrainStep& train_step, TransferWatch& transfers, StepHooks& hooks);
  /// Called where a step comes to a phase: die, hang, stop, slow and error strike there.  Errors: Error for error.
  void at(Index step, Activity phase);
  /// Called on each rank before a checkpoint of `step` is written.  Errors: FileError for write_error and disk_full, Error for error in the phase save.
  void before_checkpoint(Index step);
  /// Called while it is written, with how much of this rank's part is.  Errors: as before_checkpoint.
  void during_checkpoint(Index step, Index bytes, Index of_bytes);
  /// Called after it was published: torn_write cuts its largest file short.
  void after_checkpoint(Index step, const std::filesystem::path& folder);

 private:
  [[nodiscard]] bool strikes(std::size_t index, Index step);
  void refuse_to_write(const FaultConfig& fault) const;
  void strike_process(const FaultConfig& fault) const;
  std::vector<FaultConfig> faults_;
  std::mutex mutex_;              ///< of struck_in_
  std::vector<Index> struck_in_;  ///< the last step in which each struck; 0: none
  Index rank_;
  ModelSplit split_;
  std::filesystem::path run_dir_;
};

}  // namespace optimus
