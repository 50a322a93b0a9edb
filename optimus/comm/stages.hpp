#pragma once
// Which layers stand on which pipeline stage.

#include <string>
#include <vector>

#include "optimus/comm/mesh.hpp"

namespace optimus {

/// Where each chunk begins, and the end of the last: chunk c has layers [begins[c], begins[c+1]), as many as `layers_per_stage` says, or if that is empty as
/// even as possible, the first ones one more (10 on 3: 4, 3, 3). `num_chunks` = stages × virtual stages; chunk c is on stage c mod stages.
/// Errors: ConfigError naming both numbers if `layers_per_stage` does not add up to `num_layers` or has not `num_chunks` entries, or if there is no chunk.
[[nodiscard]] std::vector<Index> cut_layers(Index num_layers, Index num_chunks, const std::vector<Index>& layers_per_stage);

/// What keeps `layers_per_stage` from being a cut, as the rest of a sentence that begins with its key; empty if nothing does or if no cut is given.
[[nodiscard]] std::string cut_problem(Index num_layers, Index num_chunks, const std::vector<Index>& layers_per_stage);

}  // namespace optimus
