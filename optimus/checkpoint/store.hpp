#pragma once
// The checkpoints of a run folder: checkpoints/slot-0, slot-1, persistent/step-N, latest.

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "optimus/checkpoint/checkpoint_info.hpp"

namespace optimus {

/// Which model-only checkpoints stay.
struct KeepPolicy {
  Index last = 0;   ///< that many of the newest complete ones; 0: all
  Index every = 0;  ///< those of steps that are multiples of it; 0: none
};

/// Names and finds checkpoints; holds nothing but the path, asks the disk each time. clean(), make_replaceable(), set_slots_aside(), publish_latest() and
/// prune_persistent() change what is there: one process calls those.
class CheckpointStore {
 public:
  explicit CheckpointStore(const std::filesystem::path& run_dir);
  /// The slot to write next: an empty or damaged one, else the one written earlier. `spoilt`: slots whose damage only a load has shown.
  [[nodiscard]] std::filesystem::path next_slot(std::span<const std::filesystem::path> spoilt = {}) const;
  /// Moves a slot that holds other things than a checkpoint (a note, what a network file system leaves) to a name of its own, which it returns: such a slot could
  /// never be written again.  Errors: FileError.
  std::optional<std::filesystem::path> make_replaceable(const std::filesystem::path& slot) const;
  /// The one beside `slot`, without a look at the disk.
  [[nodiscard]] static std::filesystem::path other_slot(const std::filesystem::path& slot);
  [[nodiscard]] std::filesystem::path persistent(Index step) const;
  /// Names the newest complete one, in `latest`, relative to checkpoints/.
  void publish_latest(const std::filesystem::path& folder) const;
  /// Full-state checkpoints, newest first, complete by their manifests and file sizes (what an interrupted write left included); damaged ones go into `damaged`
  /// with the reason.
  [[nodiscard]] std::vector<CheckpointInfo> candidates(std::vector<std::string>& damaged) const;
  /// Model-only ones, newest first, complete in the same sense.
  [[nodiscard]] std::vector<CheckpointInfo> persistent_candidates(std::vector<std::string>& damaged) const;
  /// Removes model-only checkpoints that `keep` lets go, oldest first, up to the one of step `newest`, which was saved just now: those of higher steps are an
  /// earlier run's. What is damaged does not count as kept; a folder that holds other things too stays. Returns the steps that are gone;
  /// why others that should have gone are there still goes into `kept_back`.
  std::vector<Index> prune_persistent(Index newest, const KeepPolicy& keep, std::vector<std::string>& kept_back) const;
  /// Moves the slots into replaced/, in the place of what is there, so that a run that starts anew is never continued from them. False if there are none.
  /// Errors: FileError.
  bool set_slots_aside() const;
  /// Ends interrupted writes: what is complete gets its place, the rest is removed. Before a run writes its first checkpoint.  Errors: FileError.
  void clean() const;

 private:
  std::filesystem::path folder_;  ///< RUN/checkpoints
};

/// A folder that an import may write: not inside the checkpoints of a run, not another run's full state.  Errors: FileError.
void check_may_be_replaced(const std::filesystem::path& folder);

/// The checkpoint that `path` means: itself, or of a run folder the newest complete one (full state before model only).
/// Errors: CheckpointError if there is none, with the reason for each that is damaged.
[[nodiscard]] CheckpointInfo find_checkpoint(const std::filesystem::path& path);

}  // namespace optimus
