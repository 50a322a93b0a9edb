#include "optimus/model/plan.hpp"

#include <fmt/format.h>

#include <limits>

#include "optimus/backend/dry/dry_backend.hpp"
#include "optimus/model/network.hpp"

namespace optimus {

std::vector<View> unreal_parameters(const ModelConfig& model, DType dtype) {
  Arena arena = Arena::measuring();
  std::vector<View> views;
  for (const ParamSpec& spec : parameter_specs(model)) views.push_back(arena.alloc(dtype, spec.shape));
  return views;
}

void check_options(const TransformerOptions& options, const Backend& backend) {
  if (options.sequence_length > options.model.max_position_embeddings) {
    throw ConfigError(
        fmt::format("[model] sequences of {} tokens are longer than max_position_embeddings = {}; shorten them or raise model.max_position_embeddings",
                    options.sequence_length, options.model.max_position_embeddings));
  }
  // Lists of rows and slots are 32-bit.
  const Index rows = checked_mul(options.micro_batch, options.sequence_length), choices = options.model.is_moe ? options.model.num_experts_per_tok : 1;
  if (checked_mul(rows, choices) > std::numeric_limits<std::int32_t>::max()) {
    throw ConfigError(
        fmt::format("[model] a micro-batch of {} sequences of {} tokens with {} choices each has too many rows for one rank; make the micro-batch smaller",
                    options.micro_batch, options.sequence_length, choices));
  }
  if (!backend.supports(options.weights))
    throw UnsupportedError(fmt::format("[model] {} does not compute on {}", backend.description(), dtype_name(options.weights)));
}

ActivationPlan plan_activations(const TransformerOptions& options) {
  Arena arena = Arena::measuring();
  const auto backend = make_dry_backend();
  Network network(options, *backend, arena, true);
  const MicroBatch largest{.sequences = options.micro_batch, .sequence_length = options.sequence_length, .inputs = {}, .labels = {}};
  const auto weights = unreal_parameters(options.model, options.weights);
  if (options.has_backward) {
    network.bind(weights, unreal_parameters(options.model, options.gradients));
    network.forward_backward(largest, {}, {});
  } else {
    network.bind(weights, {});
    network.forward(largest, {});
  }
  return {.bytes = arena.peak(), .gemm_flops = backend->work().gemm_flops, .attention_flops = backend->work().attention_flops};
}

}  // namespace optimus
