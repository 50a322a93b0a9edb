#pragma once
// Which parameters stand on which part of a pipeline.

#include <vector>

#include "optimus/comm/mesh.hpp"
#include "optimus/model/config.hpp"

namespace optimus {

/// Consecutive layers of the model, and what stands at its ends.
struct LayerRange {
  Index begin = 0, end = 0;
  bool has_embedding = true, has_head = true;
  [[nodiscard]] Index count() const { return end - begin; }
  [[nodiscard]] bool contains(Index layer) const { return layer >= begin && layer < end; }
};

[[nodiscard]] LayerRange all_layers(const ModelConfig& model);

/// The chunks of stage `stage` in the order in which a micro-batch passes them: one, or `virtual_stages` of an interleaved pipeline.
/// Errors: ConfigError if the layers cannot be cut that way.
[[nodiscard]] std::vector<LayerRange> stage_chunks(const ModelConfig& model, const ParallelConfig& parallel, Index stage);

/// The parameters of these layers, in forward order. A tied head that stands apart from its embedding is the embedding's ParamSpec once more.
[[nodiscard]] std::vector<ParamSpec> parameter_specs(const ModelConfig& model, const LayerRange& layers);
/// Of all chunks of a stage, one chunk after another.
[[nodiscard]] std::vector<ParamSpec> parameter_specs(const ModelConfig& model, const std::vector<LayerRange>& chunks);

}  // namespace optimus
