#pragma once
// Checkpoints: whole or not there, described by global names, so that any layout can read what any other wrote.

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "optimus/comm/communicator.hpp"
#include "optimus/config/field.hpp"
#include "optimus/tensor/chunk.hpp"
#include "optimus/tensor/param_spec.hpp"

namespace optimus {

/// `[checkpoint]`.
struct CheckpointConfig {
  Index interval = 100;
  Index persistent_interval = 0;
  bool async = true;
  bool keep_going_on_write_error = true;
};
template <class Visitor> void describe(Visitor& v, CheckpointConfig& c) {
  v.field("interval", c.interval, "Steps between full checkpoints; 0: only at the end.", at_least(0));
  v.field("persistent_interval", c.persistent_interval, "Steps between model-only checkpoints that are kept for ever; 0: none.", at_least(0));
  v.field("async", c.async, "Copy the state and write it in the background.");
  v.field("keep_going_on_write_error", c.keep_going_on_write_error, "A checkpoint that cannot be written is a warning, not the end of the run.");
}

/// Where training stands: the scalars of a checkpoint.
struct TrainingPosition {
  Index step = 0;            ///< optimizer steps done
  Index tokens = 0;          ///< seen in all
  Index next_sample = 0;     ///< position in the endless order
  Index epoch = 0;
  Index adam_step = 0;       ///< updates applied (skipped steps not counted)
  Index nonfinite_steps = 0;
};

/// What a manifest says.
struct CheckpointInfo {
  std::filesystem::path folder;
  bool is_full_state = true;       ///< false: model only
  TrainingPosition position;
  std::string hf_config;           ///< the model's config.json
  std::string run_config;          ///< run.toml of the run that wrote it
  std::string layout;              ///< in words, for people
  std::string weights_dtype;       ///< "bf16", "f32"
};

/// Writes a checkpoint into `folder` (published by one rename; whatever was there before is replaced only then).
///
/// Collective: over `world`; every rank passes the chunks it holds; together they cover every element of every tensor exactly once.
/// Errors:   FileError on all ranks alike (disk full, no permission); what was there before stays valid.
void write_checkpoint(Communicator& world, const std::filesystem::path& folder, const CheckpointInfo& info, std::span<const Chunk> chunks);

/// Fills `chunks` (any boxes and flat ranges of the stored tensors) from `folder`. Sizes, checksums and coverage are verified before anything is written into memory.
///
/// Collective: over `world`.
/// Errors:   CheckpointError naming every missing, short or altered file or tensor; tensors whose shape differs from global_shape.
CheckpointInfo read_checkpoint(Communicator& world, const std::filesystem::path& folder, std::span<const Chunk> chunks);

/// The manifest alone.  Errors: CheckpointError.
[[nodiscard]] CheckpointInfo inspect_checkpoint(const std::filesystem::path& folder);
/// Every problem of a checkpoint in words; empty: it is whole. Reads all bytes.
[[nodiscard]] std::vector<std::string> verify_checkpoint(const std::filesystem::path& folder);

/// The checkpoints of a run folder: checkpoints/slot-0, slot-1, persistent/step-N, latest.
class CheckpointStore {
 public:
  explicit CheckpointStore(std::filesystem::path run_dir);
  /// The slot to write next: not the newest complete one.
  [[nodiscard]] std::filesystem::path next_slot() const;
  [[nodiscard]] std::filesystem::path persistent(Index step) const;
  /// Names the newest complete one, in `latest`.
  void publish_latest(const std::filesystem::path& folder) const;
  /// Full-state checkpoints, newest first, complete by their manifests and file sizes; damaged ones go into `damaged` with the reason.
  [[nodiscard]] std::vector<CheckpointInfo> candidates(std::vector<std::string>& damaged) const;

 private:
  std::filesystem::path run_dir_;
};

}  // namespace optimus
