#pragma once
// What `[debug]` asks for: gradients and logits as files, and the check that copies of a parameter are copies.

#include <filesystem>

#include "optimus/train/train_step.hpp"

namespace optimus {

/// Writes RUN/debug/gradients-step-N.safetensors: the reduced, unclipped gradients under Hugging Face names, float32.
/// Collective: over the world, between reduction and update; rank 0 has memory for all gradients in float32.
void dump_gradients(Communicator& world, TrainStep& train_step, const RunConfig& config, Index step);

/// Writes RUN/debug/logits-step-N.safetensors: "logits" [global batch, S, V] float32 and "tokens" [global batch, S+1] int32, of the weights as they are.
/// Collective: over the world; memory of the logits of this rank's rows, on rank 0 of all of one data rank's.
void dump_logits(Communicator& world, const Mesh& mesh, TrainStep& train_step, const Batch& batch, const RunConfig& config, Index step);

/// Compares hashes of all copies of each parameter.
/// Collective: over the world.  Errors: Error naming each tensor that differs and the ranks that disagree with the first.
void check_replicas(Communicator& world, const Mesh& mesh, TrainStep& train_step);

}  // namespace optimus
