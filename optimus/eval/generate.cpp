#include "optimus/eval/generate.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "optimus/base/random.hpp"
#include "optimus/model/decoder.hpp"
#include "optimus/ops/loss.hpp"

namespace optimus {
namespace {

/// Logits after the last id, by running the whole sequence.
class Rerunner {
 public:
  Rerunner(const TransformerOptions& options, Backend& backend, std::span<const View> weights) : transformer_(options, backend) {
    transformer_.bind(weights, {});
  }

  std::span<const float> append(std::span<const std::int32_t> ids) {
    sequence_.insert(sequence_.end(), ids.begin(), ids.end());
    const std::vector<std::int32_t> labels(sequence_.size(), ops::kIgnoredLabel);
    const auto length = static_cast<Index>(sequence_.size());
    (void)transformer_.forward({.sequences = 1, .sequence_length = length, .inputs = sequence_, .labels = labels}, [&](Index first_row, ConstView logits_TV) {
      const Index last = length - 1 - first_row;
      if (last < 0 || last >= logits_TV.size(0)) return;
      const ConstView row = logits_TV[last];
      logits_.resize(static_cast<std::size_t>(row.count()));
      for (Index v = 0; v < row.count(); ++v) {
        logits_[static_cast<std::size_t>(v)] = row.dtype() == DType::kF32 ? row.as<float>()[v] : static_cast<float>(row.as<BFloat16>()[v]);
      }
    });
    return logits_;
  }

 private:
  Transformer transformer_;
  std::vector<std::int32_t> sequence_;
  std::vector<float> logits_;
};

template <class Source>
std::vector<std::int32_t> extend(Source& source, std::span<const std::int32_t> prompt, std::optional<std::int32_t> end_of_document,
                                 const SamplingOptions& options, Index limit) {
  const RandomStream random(options.seed, "generate");
  std::vector<std::int32_t> generated;
  std::span<const float> logits = source.append(prompt);
  for (Index i = 0; i < limit; ++i) {
    const std::int32_t id = sample_token(logits, options, random.uniform(i));
    if (end_of_document && id == *end_of_document) break;
    generated.push_back(id);
    if (i + 1 < limit) logits = source.append(std::span(&generated.back(), 1));
  }
  return generated;
}

}  // namespace

std::int32_t sample_token(std::span<const float> logits, const SamplingOptions& options, double draw) {
  const auto count = static_cast<Index>(logits.size());
  if (options.temperature == 0.0) return static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const Index kept = options.top_k > 0 ? std::min(options.top_k, count) : count;
  std::partial_sort(order.begin(), order.begin() + kept, order.end(), [&](std::int32_t a, std::int32_t b) {
    const float x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  });
  std::vector<double> weights(static_cast<std::size_t>(kept));
  const auto largest = static_cast<double>(logits[static_cast<std::size_t>(order[0])]);
  double total = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] = std::exp((static_cast<double>(logits[static_cast<std::size_t>(order[i])]) - largest) / options.temperature);
    total += weights[i];
  }
  // The nucleus: the fewest candidates whose share reaches top_p.
  std::size_t size = 0;
  double nucleus = 0;
  while (size < weights.size() && (size == 0 || nucleus < options.top_p * total)) nucleus += weights[size++];
  double rest = draw * nucleus;
  for (std::size_t i = 0; i < size; ++i) {
    if (rest < weights[i]) return order[i];
    rest -= weights[i];
  }
  return order[size - 1];
}

std::vector<std::int32_t> generate(Backend& backend, const LoadedModel& model, std::span<const std::int32_t> prompt,
                                   std::optional<std::int32_t> end_of_document, const SamplingOptions& options, bool use_cache) {
  const auto prompt_length = static_cast<Index>(prompt.size());
  const Index positions = model.config.max_position_embeddings;
  if (prompt_length == 0 || prompt_length > positions)
    throw DataError("[generate] the prompt has " + std::to_string(prompt_length) + " tokens, the model takes 1 to " + std::to_string(positions));
  const Index limit = std::min(options.max_new_tokens, positions - prompt_length + 1);
  const TransformerOptions shape{
      .model = model.config, .weights = model.dtype, .micro_batch = 1, .sequence_length = prompt_length + std::max<Index>(limit - 1, 0)};
  if (!use_cache) {
    Rerunner source(shape, backend, model.weights);
    return extend(source, prompt, end_of_document, options, limit);
  }
  Decoder source(shape, backend, model.weights, shape.sequence_length);
  return extend(source, prompt, end_of_document, options, limit);
}

}  // namespace optimus
