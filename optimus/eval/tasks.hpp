#pragma once
// From request scores to accuracies.

#include <map>
#include <span>
#include <string>

#include "optimus/eval/requests.hpp"
#include "optimus/eval/scorer.hpp"

namespace optimus {

struct TaskScore {
  double acc = 0;       ///< share of documents whose choice with the largest log-likelihood is the label
  double acc_norm = 0;  ///< the same with log-likelihood / code points of the continuation without its one leading space
  Index documents = 0;
};

/// By task name. The first choice wins ties. Unconditional requests are left out.
[[nodiscard]] std::map<std::string, TaskScore> score_tasks(std::span<const LikelihoodRequest> requests, std::span<const RequestScore> scores);

}  // namespace optimus
