#include "optimus/model/runtime.hpp"

#include <fmt/format.h>

#include "optimus/base/check.hpp"
#include "optimus/model/rotary.hpp"
#include "optimus/model/tensor_parallel.hpp"
#include "optimus/ops/loss.hpp"

namespace optimus {
namespace {

DType wide_of(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

MoeShape moe_shape(const ModelConfig& model, Index tp) {
  return {.hidden_size = model.hidden_size,
          .intermediate_size = model.intermediate_size / tp,
          .num_experts = model.num_experts,
          .top_k = model.num_experts_per_tok,
          .norm_topk_prob = model.norm_topk_prob};
}

/// A group where it has other members: alone, a rank takes the paths without communication.
Communicator* shared_by(Index size, Index rank, Communicator* group) {
  if (size == 1) return nullptr;
  OPTIMUS_CHECK(group != nullptr && group->size() == size && group->rank() == rank, "a model that is split over ranks comes with their group");
  return group;
}
Communicator* tp_group(const TransformerOptions& options, const ModelGroups& groups) { return shared_by(options.split.tp, options.split.tp_rank, groups.tp); }
Communicator* ep_group(const TransformerOptions& options, const ModelGroups& groups) { return shared_by(options.split.ep, options.split.ep_rank, groups.ep); }

}  // namespace

ModelRuntime::ModelRuntime(const TransformerOptions& given, Backend& backend, const ModelGroups& groups, const RuntimeMemory& memory, bool is_planning)
    : options(given),
      dispatcher(make_dispatcher(given.moe.dispatcher, ep_group(given, groups))),
      experts(make_experts(given.moe.implementation)),
      kv_sharers(make_kv_sharers(given, tp_group(given, groups))),
      context{.backend = backend,
              .arena = memory.temporaries,
              .kept = &memory.kept,
              .options = options,
              .tp = tp_group(given, groups),
              .kv_sharers = kv_sharers.get(),
              .wide = wide_of(given.weights),
              .is_planning = is_planning,
              .positions_T = {},
              .cos_PA = {},
              .sin_PA = {}},
      moe_context{.backend = backend,
                  .arena = memory.temporaries,
                  .kept = &memory.kept,
                  .dispatcher = *dispatcher,
                  .config = options.moe,
                  .shape = moe_shape(given.model, given.split.tp),
                  .tp = tp_group(given, groups),
                  .ep = ep_group(given, groups),
                  .dtype = given.weights,
                  .wide = wide_of(given.weights),
                  .is_planning = is_planning,
                  .overlap = given.overlap},
      positions_(memory.kept.alloc(DType::kI32, {checked_mul(given.micro_batch, given.sequence_length)})) {
  // Positions count through the longest sequence that can be asked for.
  context.cos_PA = memory.kept.alloc(context.wide, {given.sequence_length, given.model.head_size() / 2});
  context.sin_PA = memory.kept.like(context.cos_PA);
  if (!is_planning) fill_rotary_tables(given.model.rope_theta, context.cos_PA, context.sin_PA);
}

void ModelRuntime::keep_in(Arena& arena) {
  context.kept = &arena;
  moe_context.kept = &arena;
}

void ModelRuntime::defer_to(WeightProducts* list) {
  context.deferred = list;
  moe_context.deferred = list;
}

void ModelRuntime::set_poll(const std::function<void()>* on_poll) {
  context.on_poll = on_poll;
  moe_context.on_poll = on_poll;
}

void ModelRuntime::set_rows(Index sequences, Index sequence_length, Index first_position) {
  context.sequences = sequences;
  context.sequence_length = sequence_length;
  context.positions_T = positions_.rows(0, context.rows());
  if (!context.is_planning) fill_positions(sequence_length, first_position, context.positions_T);
}

void check_ids(const ModelConfig& model, std::span<const std::int32_t> ids, std::string_view what, Index sequence_length) {
  const bool may_be_ignored = what == "label";
  for (std::size_t t = 0; t < ids.size(); ++t) {
    if ((ids[t] >= 0 && ids[t] < model.vocab_size) || (may_be_ignored && ids[t] == ops::kIgnoredLabel)) continue;
    throw DataError(fmt::format("[model] {} {} at position {} of sequence {} is outside the vocabulary of {}", what, ids[t],
                                static_cast<Index>(t) % sequence_length, static_cast<Index>(t) / sequence_length, model.vocab_size));
  }
}

}  // namespace optimus
