#pragma once
// The checkpoints of a run folder: checkpoints/slot-0, slot-1, persistent/step-N, latest.

#include <filesystem>
#include <string>
#include <vector>

#include "optimus/checkpoint/checkpoint_info.hpp"

namespace optimus {

/// Names and finds checkpoints; holds nothing but the path, asks the disk each time. Only clean(), set_slots_aside() and publish_latest() change anything: one process calls those.
class CheckpointStore {
 public:
  explicit CheckpointStore(std::filesystem::path run_dir);
  /// The slot to write next: an empty or damaged one, else the one written earlier.
  [[nodiscard]] std::filesystem::path next_slot() const;
  [[nodiscard]] std::filesystem::path persistent(Index step) const;
  /// Names the newest complete one, in `latest`, relative to checkpoints/.
  void publish_latest(const std::filesystem::path& folder) const;
  /// Full-state checkpoints, newest first, complete by their manifests and file sizes (what an interrupted write left included); damaged ones go into `damaged`
  /// with the reason.
  [[nodiscard]] std::vector<CheckpointInfo> candidates(std::vector<std::string>& damaged) const;
  /// Model-only ones, newest first, complete in the same sense.
  [[nodiscard]] std::vector<CheckpointInfo> persistent_candidates(std::vector<std::string>& damaged) const;
  /// Moves the slots into replaced/, in the place of what is there, so that a run that starts anew is never continued from them. False if there are none.
  /// Errors: FileError.
  bool set_slots_aside() const;
  /// Ends interrupted writes: what is complete gets its place, the rest is removed. Before a run writes its first checkpoint.  Errors: FileError.
  void clean() const;

 private:
  std::filesystem::path folder_;  ///< RUN/checkpoints
};

/// The checkpoint that `path` means: itself, or of a run folder the newest complete one (full state before model only).
/// Errors: CheckpointError with the reason for each that is damaged.
[[nodiscard]] CheckpointInfo find_checkpoint(const std::filesystem::path& path);

}  // namespace optimus
