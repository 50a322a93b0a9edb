#pragma once
// A few optimizer steps in any layout, without files: what came of them, whole, to be compared with one rank.

#include <map>
#include <string>
#include <vector>

#include "optimus/comm/communicator.hpp"

namespace optimus::test {

/// Everything that must not depend on the layout. Tensors are whole and on rank 0 only.
struct Outcome {
  std::vector<double> lm_loss, aux_loss, z_loss, grad_norm;               ///< of each step
  std::map<std::string, std::vector<float>> initial, gradients, weights;  ///< gradients of the first step
  std::vector<Index> expert_counts;                                       ///< of all steps together
};

/// The ids of a run.
enum class Ids { kRandom, kSameSequenceAlways };

/// `text`: the configuration. `steps` steps on made-up ids with a constant learning rate; copies of parameters are compared after each.
/// Collective: over `world`.
[[nodiscard]] Outcome train(Communicator& world, const std::string& text, const std::vector<std::string>& settings, Index steps, Ids ids = Ids::kRandom);

}  // namespace optimus::test
