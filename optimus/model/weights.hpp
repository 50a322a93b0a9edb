#pragma once
// From the flat list of parameters, in the order of parameter_specs, to the structs that the blocks work with.

#include <span>
#include <string_view>
#include <vector>

#include "optimus/model/head.hpp"
#include "optimus/model/layer.hpp"

namespace optimus {

/// Weights of a range of layers, or their gradients; what stands elsewhere does not exist. A tied head is the embedding once more.
struct ModelWeights {
  View embedding_VD;
  std::vector<LayerWeights> layers;
  HeadWeights head;
};

/// `what` is "weight" or "gradient" in messages.
/// Errors: ShapeError naming the first parameter whose shape or element type is wrong, or the number of views.
[[nodiscard]] ModelWeights bind_weights(const TransformerOptions& options, std::string_view what, DType dtype, std::span<const View> views);

}  // namespace optimus
