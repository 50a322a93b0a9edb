#pragma once
// Log-likelihoods of token sequences under a model.

#include <span>
#include <vector>

#include "optimus/backend/backend.hpp"
#include "optimus/comm/communicator.hpp"
#include "optimus/eval/loaded_model.hpp"
#include "optimus/eval/requests.hpp"

namespace optimus {

struct RequestScore {
  double logprob = 0;      ///< sum over the continuation of log softmax(logits)[id], natural logarithm
  bool is_greedy = false;  ///< every id of the continuation is the argmax at its place, the lowest id among equals
};

/// Scores every request, in the order given. Sequences of similar length share a forward pass, padded on the right, which causal attention cannot see.
///
/// Collective: over `world`, which shares the batches; every rank gets all results.
/// Numerics:   soft-max sums over the vocabulary in f64.
[[nodiscard]] std::vector<RequestScore> score_requests(Communicator& world, Backend& backend, const LoadedModel& model,
                                                       std::span<const EncodedRequest> requests);

}  // namespace optimus
