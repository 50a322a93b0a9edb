#include "optimus/comm/stages.hpp"

#include <fmt/format.h>

#include "optimus/base/counted.hpp"

namespace optimus {

std::string cut_problem(Index num_layers, Index num_chunks, const std::vector<Index>& layers_per_stage) {
  if (layers_per_stage.empty()) return {};
  if (static_cast<Index>(layers_per_stage.size()) != num_chunks)
    return fmt::format("has {} for {}", counted(layers_per_stage.size(), "number"), counted(num_chunks, "stage"));
  Index sum = 0;
  for (std::size_t s = 0; s < layers_per_stage.size(); ++s) {
    if (layers_per_stage[s] < 0) return fmt::format("gives stage {} {} layers", s, layers_per_stage[s]);
    if (__builtin_add_overflow(sum, layers_per_stage[s], &sum)) return fmt::format("adds up to more layers than can be counted, the model has {}", num_layers);
  }
  return sum == num_layers ? std::string() : fmt::format("adds up to {}, the model has {}", counted(sum, "layer"), num_layers);
}

std::vector<Index> cut_layers(Index num_layers, Index num_chunks, const std::vector<Index>& layers_per_stage) {
  if (num_chunks < 1) throw ConfigError(fmt::format("[comm] {} pipeline stages; at least 1 is needed", num_chunks));
  if (const std::string problem = cut_problem(num_layers, num_chunks, layers_per_stage); !problem.empty())
    throw ConfigError("[comm] parallel.layers_per_stage " + problem);
  std::vector<Index> begins = {0};
  for (Index s = 0; s < num_chunks; ++s) {
    const Index even = num_layers / num_chunks + (s < num_layers % num_chunks ? 1 : 0);
    begins.push_back(begins.back() + (layers_per_stage.empty() ? even : layers_per_stage[static_cast<std::size_t>(s)]));
  }
  return begins;
}

}  // namespace optimus
