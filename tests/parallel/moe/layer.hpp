#pragma once
// The experts of one layer, computed by all ranks of the program together or by one alone, on rows whose choices the test makes.

#include <string>
#include <vector>

#include "optimus/model/moe/experts.hpp"
#include "tests/support/mpi/mpi_world.hpp"

namespace optimus::test {

/// The rows of all ranks, and the layer that they meet.
struct Layer {
  Index rows = 0;  ///< of all ranks
  Index num_experts = 0, top_k = 0, hidden_size = 5, intermediate_size = 3;
  std::vector<std::int32_t> index;  ///< [rows, top_k]
};
/// Choices spread over the experts [0, busy_experts).
[[nodiscard]] Layer layer_of(Index rows, Index num_experts, Index top_k, Index busy_experts);

/// How the layer is computed.
struct Way {
  std::string implementation = "fast", dispatcher = "all_gather", backend = "ref";
  DType dtype = DType::kF64;
  bool overlap = true;
  bool is_shared = true;  ///< by all ranks; false: this one computes all of it
};

/// What comes out: of the own rows, and of the own experts.
struct LayerResult {
  std::vector<double> y, dx, dweight, dw_gate, dw_up, dw_down;
  std::size_t num_parts = 0;
  Index slots = 0;  ///< slots of the first part's plan
};
/// Forward, forward for backward's sake alone, and backward, each as often as a step with recomputation has them, over memory of exactly the planned size that
/// was filled with NaN.
[[nodiscard]] LayerResult compute(const Layer& layer, const Way& way);

/// The parts of `whole`, a result of one rank, that this rank has when all share the layer.
[[nodiscard]] LayerResult own_part(const Layer& layer, const LayerResult& whole);
/// Fails unless they agree within `bound` of each tensor's largest element; 0: as numbers, exactly.
void expect_same(const LayerResult& got, const LayerResult& want, double bound);

}  // namespace optimus::test
