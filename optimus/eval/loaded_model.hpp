#pragma once
// A trained model opened for reading: from a Hugging Face folder, a checkpoint or a run folder.

#include <filesystem>
#include <span>
#include <vector>

#include "optimus/backend/backend.hpp"
#include "optimus/comm/communicator.hpp"
#include "optimus/model/config.hpp"
#include "optimus/tensor/arena.hpp"

namespace optimus {

/// Shape and weights of a model, whole on this rank.
struct LoadedModel {
  ModelConfig config;
  DType dtype = DType::kF32;
  Buffer memory;
  std::vector<View> weights;  ///< in the order of parameter_specs(config)
};

/// What `--model` may name: a folder with config.json and safetensors, one with manifest.json, or a run folder, of which the newest checkpoint is taken.
///
/// Types:      weights are converted to `dtype` (f32 or bf16).
/// Collective: over `world`; every rank gets the whole model.
/// Errors:     CheckpointError naming the folder if it is none of the three, or what in it is damaged.
[[nodiscard]] LoadedModel load_model(Communicator& world, Backend& backend, const std::filesystem::path& folder, DType dtype);

}  // namespace optimus
