#pragma once
// What is known about a checkpoint apart from its tensors, and the run's options for saving.

#include <filesystem>
#include <string>

#include "optimus/base/index.hpp"
#include "optimus/config/field.hpp"

namespace optimus {

/// `[checkpoint]`.
struct CheckpointConfig {
  Index interval = 100;
  Index persistent_interval = 0;
  bool async = true;
  bool keep_going_on_write_error = true;
  Index keep_last = 0, keep_every = 0;
};
template <class Visitor> void describe(Visitor& v, CheckpointConfig& c) {
  v.field("interval", c.interval, "Steps between full checkpoints; 0: only at the end.", at_least(0));
  v.field("persistent_interval", c.persistent_interval, "Steps between model-only checkpoints; 0: none.", at_least(0));
  v.field("async", c.async, "Copy the state and write it in the background.");
  v.field("keep_going_on_write_error", c.keep_going_on_write_error, "A checkpoint that cannot be written is a warning, not the end of the run.");
  v.field("keep_last", c.keep_last, "Model-only checkpoints to keep: that many of the newest; 0: all of them.", at_least(0));
  v.field("keep_every", c.keep_every, "Beside the newest, keep those of steps that are multiples of this for ever; 0: none beside them. Needs keep_last.",
          at_least(0));
}

/// Where training stands: the scalars of a checkpoint.
struct TrainingPosition {
  Index step = 0;         ///< optimizer steps done
  Index tokens = 0;       ///< seen in all
  Index next_sample = 0;  ///< position in the endless order
  Index epoch = 0;
  Index adam_step = 0;  ///< updates applied (skipped steps not counted)
  Index nonfinite_steps = 0;
};

/// What a manifest says.
struct CheckpointInfo {
  std::filesystem::path folder;
  bool is_full_state = true;  ///< false: model only
  TrainingPosition position;
  std::string hf_config;      ///< the model's config.json
  std::string run_config;     ///< run.toml of the run that wrote it
  std::string layout;         ///< in words, for people
  std::string weights_dtype;  ///< "bf16", "f32"
  Index sequence = 0;         ///< of the slots of a run, the highest was written last; set by the writer
};

}  // namespace optimus
