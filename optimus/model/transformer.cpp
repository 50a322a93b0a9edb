#include "optimus/model/transformer.hpp"

#include <deque>

#include "optimus/model/network.hpp"
#include "optimus/model/plan.hpp"

namespace optimus {
struct Transformer::Impl {
  ActivationPlan plan;
  std::optional<Arena> own_temporaries;
  std::vector<Arena> slots;
  Network network;

  Impl(const TransformerOptions& options, Backend& backend, const ModelGroups& groups, Arena* temporaries)
      : plan(plan_activations(options)),
        slots(make_slots(options.slots, plan)),
        network(options, backend, groups, {temporary_arena(temporaries), slots}, false) {}

  static std::vector<Arena> make_slots(Index count, const ActivationPlan& plan) {
    std::vector<Arena> arenas;
    for (Index slot = 0; slot < count; ++slot) arenas.emplace_back((plan.bytes - plan.temporary_bytes) / count);
    return arenas;
  }
  Arena& temporary_arena(Arena* shared) { return shared != nullptr ? *shared : own_temporaries.emplace(plan.temporary_bytes); }
};

Transformer::Transformer(const TransformerOptions& options, Backend& backend, const ModelGroups& groups, Arena* temporaries) {
  check_options(options, backend);
  impl_ = std::make_unique<Impl>(options, backend, groups, temporaries);
  const ModelConfig& model = options.model;
  backend.reserve_attention({.batch = options.micro_batch,
                             .queries = options.sequence_length,
                             .keys = options.sequence_length,
                             .heads = model.num_attention_heads / options.split.tp,
                             .kv_heads = std::max<Index>(1, model.num_key_value_heads / options.split.tp),
                             .head_size = model.head_size()},
                            options.weights);
}
Transformer::~Transformer() = default;
Transformer::Transformer(Transformer&&) noexcept = default;

void Transformer::bind(std::span<const View> weights, std::span<const View> gradients) { impl_->network.bind(weights, gradients); }

MicroBatchResult Transformer::forward_backward(const MicroBatch& batch, const LossScale& scale, const GlobalExpertCounts& global_counts) {
  impl_->network.forward(0, batch, scale, {}, {});
  return impl_->network.backward(0, batch, scale, global_counts, {}, {});
}
MicroBatchResult Transformer::forward(const MicroBatch& batch, const LogitsSink& sink) { return impl_->network.forward_only(batch, {}, {}, sink); }

void Transformer::stage_forward(Index slot, const MicroBatch& batch, const LossScale& scale, const StageRows& received, const StageRows& sent) {
  impl_->network.forward(slot, batch, scale, received, sent);
}
MicroBatchResult Transformer::stage_backward(Index slot, const MicroBatch& batch, const LossScale& scale, const GlobalExpertCounts& global_counts,
                                             const StageRows& received, const StageRows& sent) {
  return impl_->network.backward(slot, batch, scale, global_counts, received, sent);
}
MicroBatchResult Transformer::stage_backward_input(Index slot, const MicroBatch& batch, const LossScale& scale, const GlobalExpertCounts& global_counts,
                                                   const StageRows& received, const StageRows& sent) {
  return impl_->network.backward_input(slot, batch, scale, global_counts, received, sent);
}
void Transformer::stage_backward_weight(Index slot) { impl_->network.backward_weight(slot); }
MicroBatchResult Transformer::stage_forward_only(const MicroBatch& batch, const StageRows& received, const StageRows& sent, const LogitsSink& sink) {
  return impl_->network.forward_only(batch, received, sent, sink);
}

std::span<const std::int64_t> Transformer::expert_counts() const { return impl_->network.expert_counts(); }
void Transformer::set_hooks(TransformerHooks hooks) { impl_->network.set_hooks(std::move(hooks)); }
void Transformer::set_probe(Probe probe) { impl_->network.set_probe(std::move(probe)); }
Index Transformer::arena_bytes() const { return impl_->plan.bytes; }

StageRows stage_rows(const TransformerOptions& options) {
  Arena arena = Arena::measuring();
  const Index rows = checked_mul(options.micro_batch, options.sequence_length);
  const bool is_sequence_parallel = options.sequence_parallel && options.split.tp > 1;
  StageRows shapes;
  shapes.rows_TD = arena.alloc(options.weights, {is_sequence_parallel ? rows / options.split.tp : rows, options.model.hidden_size});
  const Index groups = balance_options(options.moe).is_by_sequence ? options.micro_batch : 1;
  if (options.model.is_moe) shapes.counts_GE = arena.alloc(DType::kI64, {groups, options.model.num_experts});
  return shapes;
}

}  // namespace optimus
