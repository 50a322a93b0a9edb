#pragma once
// Names and pieces that import and export share. Internal to this folder.

#include "optimus/tensor/chunk.hpp"
#include "optimus/tensor/param_spec.hpp"

namespace optimus {

inline constexpr const char* kSingleFile = "model.safetensors";
inline constexpr const char* kIndexFile = "model.safetensors.index.json";
inline constexpr const char* kEmbeddingName = "model.embed_tokens.weight";
inline constexpr const char* kHeadName = "lm_head.weight";

/// Hugging Face tensors that a parameter is on disk.
[[nodiscard]] Index num_entries(const ParamSpec& spec);
/// Shape of each of them.
[[nodiscard]] Shape entry_shape(const ParamSpec& spec);
/// Where entry `index` lies in the parameter.
[[nodiscard]] Box entry_box(const ParamSpec& spec, Index index);

}  // namespace optimus
