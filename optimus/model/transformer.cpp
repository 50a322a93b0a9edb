#include "optimus/model/transformer.hpp"

#include <fmt/format.h>

#include "optimus/backend/dry/dry_backend.hpp"
#include "optimus/model/network.hpp"

namespace optimus {
namespace {

/// Views of all parameters in memory that does not exist.
std::vector<View> unreal_parameters(const ModelConfig& model, DType dtype) {
  Arena arena = Arena::measuring();
  std::vector<View> views;
  for (const ParamSpec& spec : parameter_specs(model)) views.push_back(arena.alloc(dtype, spec.shape));
  return views;
}

void check_options(const TransformerOptions& options) {
  if (options.sequence_length > options.model.max_position_embeddings) {
    throw ConfigError(fmt::format("[model] sequences of {} tokens are longer than max_position_embeddings = {}; shorten them or raise model.max_position_embeddings", options.sequence_length, options.model.max_position_embeddings));
  }
}

}  // namespace

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

struct Transformer::Impl {
  Arena arena;
  Network network;

  Impl(const TransformerOptions& options, Backend& backend) : arena(plan_activations(options).bytes), network(options, backend, arena, false) {}
};

Transformer::Transformer(const TransformerOptions& options, Backend& backend) {
  check_options(options);
  if (!backend.supports(options.weights)) throw UnsupportedError(fmt::format("[model] {} does not compute on {}", backend.description(), dtype_name(options.weights)));
  impl_ = std::make_unique<Impl>(options, backend);
  const ModelConfig& model = options.model;
  backend.reserve_attention({.batch = options.micro_batch,
                             .queries = options.sequence_length,
                             .keys = options.sequence_length,
                             .heads = model.num_attention_heads,
                             .kv_heads = model.num_key_value_heads,
                             .head_size = model.head_size()},
                            options.weights);
}
Transformer::~Transformer() = default;
Transformer::Transformer(Transformer&&) noexcept = default;

void Transformer::bind(std::span<const View> weights, std::span<const View> gradients) { impl_->network.bind(weights, gradients); }
MicroBatchResult Transformer::forward_backward(const MicroBatch& batch, const LossScale& scale, const GlobalCounts& global_counts) {
  return impl_->network.forward_backward(batch, scale, global_counts);
}
MicroBatchResult Transformer::forward(const MicroBatch& batch, const LogitsSink& sink) { return impl_->network.forward(batch, sink); }
std::span<const std::int64_t> Transformer::expert_counts() const { return impl_->network.expert_counts(); }
void Transformer::set_probe(Probe probe) { impl_->network.set_probe(std::move(probe)); }
Index Transformer::arena_bytes() const { return impl_->arena.capacity(); }

}  // namespace optimus
