#include "optimus/model/transformer.hpp"

#include "optimus/model/network.hpp"
#include "optimus/model/plan.hpp"

namespace optimus {
struct Transformer::Impl {
  Arena arena;
  Network network;

  Impl(const TransformerOptions& options, Backend& backend) : arena(plan_activations(options).bytes), network(options, backend, arena, false) {}
};

Transformer::Transformer(const TransformerOptions& options, Backend& backend) {
  check_options(options, backend);
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
