#include "optimus/eval/scorer.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "optimus/model/transformer.hpp"
#include "optimus/ops/loss.hpp"

namespace optimus {
namespace {

constexpr Index kLengthStep = 64;  // lengths are padded to multiples of this, so that few shapes occur
constexpr Index kTokensPerBatch = 2048;

/// Requests of one forward pass.
struct ScoringBatch {
  Index length = 0;  // of every sequence, padded
  std::vector<Index> requests;
};

std::vector<ScoringBatch> make_batches(std::span<const EncodedRequest> requests, Index max_positions) {
  std::vector<Index> order(requests.size());
  std::iota(order.begin(), order.end(), Index{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](Index a, Index b) { return requests[static_cast<std::size_t>(a)].ids.size() > requests[static_cast<std::size_t>(b)].ids.size(); });
  std::vector<ScoringBatch> batches;
  for (const Index index : order) {
    const auto inputs = static_cast<Index>(requests[static_cast<std::size_t>(index)].ids.size()) - 1;
    const Index length = std::min(round_up(inputs, kLengthStep), max_positions);
    const Index capacity = std::max<Index>(1, kTokensPerBatch / length);
    if (batches.empty() || batches.back().length != length || static_cast<Index>(batches.back().requests.size()) == capacity)
      batches.push_back({.length = length, .requests = {}});
    batches.back().requests.push_back(index);
  }
  return batches;
}

/// Log-probability of `id` and whether it is the argmax, of one row of f32 logits.
struct TokenScore {
  double logprob;
  bool is_greedy;
};
TokenScore score_token(std::span<const float> logits, std::int32_t id) {
  const auto largest = std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - static_cast<double>(*largest));
  const auto chosen = static_cast<double>(logits[static_cast<std::size_t>(id)]);
  return {.logprob = chosen - static_cast<double>(*largest) - std::log(sum), .is_greedy = largest - logits.begin() == id};
}

class BatchScorer {
 public:
  BatchScorer(Backend& backend, const LoadedModel& model, std::span<const EncodedRequest> requests, std::span<RequestScore> scores)
      : backend_(backend), model_(model), requests_(requests), scores_(scores) {}

  void run(const ScoringBatch& batch) {
    prepare(batch);
    logits_row_.resize(static_cast<std::size_t>(model_.config.vocab_size));
    const MicroBatch rows{.sequences = static_cast<Index>(batch.requests.size()), .sequence_length = batch.length, .inputs = inputs_, .labels = labels_};
    (void)transformer_->forward(rows, [&](Index first_row, ConstView logits_TV) {
      for (Index t = 0; t < logits_TV.size(0); ++t) take_row(batch, first_row + t, logits_TV[t]);
    });
  }

 private:
  void prepare(const ScoringBatch& batch) {
    const auto sequences = static_cast<Index>(batch.requests.size());
    if (!transformer_ || batch.length != length_ || sequences > capacity_) {
      length_ = batch.length;
      capacity_ = sequences;
      transformer_.emplace(TransformerOptions{.model = model_.config, .weights = model_.dtype, .micro_batch = capacity_, .sequence_length = length_}, backend_);
      transformer_->bind(model_.weights, {});
    }
    // Padding reads id 0: causal attention keeps it from every row before it, and its own rows are not scored.
    inputs_.assign(static_cast<std::size_t>(sequences * length_), 0);
    labels_.assign(static_cast<std::size_t>(sequences * length_), ops::kIgnoredLabel);
    for (Index b = 0; b < sequences; ++b) {
      const EncodedRequest& request = requests_[static_cast<std::size_t>(batch.requests[static_cast<std::size_t>(b)])];
      const auto n = static_cast<Index>(request.ids.size()) - 1;
      for (Index i = 0; i < n; ++i) {
        const auto at = static_cast<std::size_t>(b * length_ + i);
        inputs_[at] = request.ids[static_cast<std::size_t>(i)];
        if (i >= n - request.continuation_tokens) labels_[at] = request.ids[static_cast<std::size_t>(i + 1)];
      }
      RequestScore& score = scores_[static_cast<std::size_t>(batch.requests[static_cast<std::size_t>(b)])];
      score = {.logprob = 0, .is_greedy = true};
    }
  }

  void take_row(const ScoringBatch& batch, Index row, ConstView logits_V) {
    const std::int32_t label = labels_[static_cast<std::size_t>(row)];
    if (label == ops::kIgnoredLabel) return;
    std::span<const float> logits = logits_row_;
    if (logits_V.dtype() == DType::kF32) {
      logits = logits_V.span<float>();
    } else {
      const auto stored = logits_V.span<BFloat16>();
      std::transform(stored.begin(), stored.end(), logits_row_.begin(), [](BFloat16 x) { return static_cast<float>(x); });
    }
    const TokenScore token = score_token(logits, label);
    RequestScore& score = scores_[static_cast<std::size_t>(batch.requests[static_cast<std::size_t>(row / length_)])];
    score.logprob += token.logprob;
    score.is_greedy = score.is_greedy && token.is_greedy;
  }

  Backend& backend_;
  const LoadedModel& model_;
  std::span<const EncodedRequest> requests_;
  std::span<RequestScore> scores_;
  std::optional<Transformer> transformer_;
  Index length_ = 0, capacity_ = 0;
  std::vector<std::int32_t> inputs_, labels_;
  std::vector<float> logits_row_;
};

/// Every rank has scored its own batches and holds zeros elsewhere.
void share_scores(Communicator& world, std::span<RequestScore> scores) {
  std::vector<double> values(scores.size() * 2);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    values[2 * i] = scores[i].logprob;
    values[2 * i + 1] = scores[i].is_greedy ? 1.0 : 0.0;
  }
  world.all_reduce(View(reinterpret_cast<std::byte*>(values.data()), DType::kF64, {static_cast<Index>(values.size())}), Reduce::kSum);
  for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = {.logprob = values[2 * i], .is_greedy = values[2 * i + 1] != 0.0};
}

}  // namespace

std::vector<RequestScore> score_requests(Communicator& world, Backend& backend, const LoadedModel& model, std::span<const EncodedRequest> requests) {
  std::vector<RequestScore> scores(requests.size());
  agree(world, [&] {
    BatchScorer scorer(backend, model, requests, scores);
    const std::vector<ScoringBatch> batches = make_batches(requests, model.config.max_position_embeddings);
    for (std::size_t i = static_cast<std::size_t>(world.rank()); i < batches.size(); i += static_cast<std::size_t>(world.size())) scorer.run(batches[i]);
  });
  share_scores(world, scores);
  return scores;
}

}  // namespace optimus
