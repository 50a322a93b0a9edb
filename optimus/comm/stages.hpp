#pragma once
// Which layers stand on which pipeline stage.

#include <string>
#include <vector>

#include "optimus/comm/mesh.hpp"

namespace optimus {

/// Layers [begins[s], begins[s+1]) belong to stage s: `layers_per_stage` if given, else as even as possible with the first stages one more (10 on 3: 4, 3, 3).
/// With `num_chunks` = stages × virtual stages the same cut gives the chunks; chunk c is on stage c mod stages.
/// Errors: ConfigError naming both numbers if the explicit split does not add up to `num_layers` or has not `num_chunks` entries.
[[nodiscard]] std::vector<Index> cut_layers(Index num_layers, Index num_chunks, const std::vector<Index>& layers_per_stage);

/// What keeps `layers_per_stage` from being a cut, as the rest of a sentence that begins with its key; empty if nothing does or if no cut is given.
[[nodiscard]] std::string cut_problem(Index num_layers, Index num_chunks, const std::vector<Index>& layers_per_stage);

}  // namespace optimus
