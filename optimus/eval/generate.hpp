#pragma once
// Writing text with a model.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "optimus/backend/backend.hpp"
#include "optimus/eval/loaded_model.hpp"

namespace optimus {

/// How the next id is drawn. temperature 0: the most likely one, the lowest among equals.
struct SamplingOptions {
  Index max_new_tokens = 200;
  double temperature = 0.8;
  Index top_k = 0;     ///< only the k most likely; 0: all
  double top_p = 1.0;  ///< only the fewest whose probabilities reach p
  std::uint64_t seed = 1;
};

/// Draws one id. `draw` is uniform in [0, 1). Candidates are ordered by logit, ties by the lower id, so the result depends on the logits only.
[[nodiscard]] std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options, double draw);

/// Continues `prompt` (at least one id) until `end_of_document` (not returned), max_new_tokens, or the model's last position.
/// The i-th new id uses RandomStream(seed, "generate").uniform(i).
/// `use_cache`: keep keys and values; otherwise every step runs the whole sequence again (the same ids; for tests).
[[nodiscard]] std::vector<std::int32_t> generate(Backend& backend, const LoadedModel& model, std::span<const std::int32_t> prompt,
                                                 std::optional<std::int32_t> end_of_document, const SamplingOptions& options, bool use_cache = true);

}  // namespace optimus
