#pragma once
// What plans are made with, and what they check first.

#include <vector>

#include "optimus/model/transformer.hpp"

namespace optimus {

/// Views of this rank's parts of all parameters in memory that does not exist.
[[nodiscard]] std::vector<View> unreal_parameters(const TransformerOptions& options, DType dtype);

/// Errors: ConfigError for a sequence longer than max_position_embeddings more rows than 32 bits count, or rows that sequence parallelism cannot share out evenly; UnsupportedError for an element type that the backend does not compute on.
void check_options(const TransformerOptions& options, const Backend& backend);

}  // namespace optimus
