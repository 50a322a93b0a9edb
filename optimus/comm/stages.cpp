#include "optimus/comm/stages.hpp"

#include <fmt/format.h>

namespace optimus {

std::vector<Index> cut_layers(Index num_layers, Index num_chunks, const std::vector<Index>& layers_per_stage) {
  const bool is_explicit = !layers_per_stage.empty();
  if (num_chunks < 1) throw ConfigError(fmt::format("[comm] {} pipeline stages; at least 1 is needed", num_chunks));
  if (is_explicit && static_cast<Index>(layers_per_stage.size()) != num_chunks)
    throw ConfigError(fmt::format("parallel.layers_per_stage has {} numbers for {} stages", layers_per_stage.size(), num_chunks));
  std::vector<Index> begins = {0};
  for (Index s = 0; s < num_chunks; ++s) {
    const Index even = num_layers / num_chunks + (s < num_layers % num_chunks ? 1 : 0);
    const Index count = is_explicit ? layers_per_stage[static_cast<std::size_t>(s)] : even;
    if (count < 0) throw ConfigError(fmt::format("parallel.layers_per_stage gives stage {} {} layers", s, count));
    begins.push_back(checked_add(begins.back(), count));
  }
  if (begins.back() != num_layers)
    throw ConfigError(fmt::format("parallel.layers_per_stage adds up to {} layers, the model has {}", begins.back(), num_layers));
  return begins;
}

}  // namespace optimus
