#include "optimus/model/network.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "optimus/base/check.hpp"
#include "optimus/model/rotary.hpp"
#include "optimus/ops/loss.hpp"
#include "optimus/ops/misc.hpp"
#include "optimus/ops/update.hpp"

namespace optimus {
namespace {

DType wide_of(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

MoeShape moe_shape(const ModelConfig& model) {
  return {.hidden_size = model.hidden_size,
          .intermediate_size = model.intermediate_size,
          .num_experts = model.num_experts,
          .top_k = model.num_experts_per_tok,
          .norm_topk_prob = model.norm_topk_prob};
}

}  // namespace

Network::Network(const TransformerOptions& options, Backend& backend, Arena& arena, bool is_planning)
    : options_(options),
      balance_options_(balance_options(options.moe)),
      dispatcher_(make_local_dispatcher()),
      experts_(make_experts(options.moe.implementation)),
      context_{.backend = backend, .arena = arena, .options = options_, .wide = wide_of(options.weights), .is_planning = is_planning, .positions_T = {}, .cos_PA = {}, .sin_PA = {}},
      moe_context_{.backend = backend,
                   .arena = arena,
                   .dispatcher = *dispatcher_,
                   .config = options_.moe,
                   .shape = moe_shape(options.model),
                   .dtype = options.weights,
                   .wide = wide_of(options.weights),
                   .is_planning = is_planning} {
  const ModelConfig& model = options_.model;
  positions_ = arena.alloc(DType::kI32, {checked_mul(options.micro_batch, options.sequence_length)});
  context_.cos_PA = arena.alloc(context_.wide, {options.sequence_length, model.head_size() / 2});
  context_.sin_PA = arena.like(context_.cos_PA);
  if (!is_planning) fill_rotary_tables(model.rope_theta, context_.cos_PA, context_.sin_PA);
  saved_.resize(static_cast<std::size_t>(model.num_hidden_layers));
  if (model.is_moe) counts_LE_.resize(static_cast<std::size_t>(checked_mul(model.num_hidden_layers, model.num_experts)));
}

void Network::bind(std::span<const View> weights, std::span<const View> gradients) {
  weights_ = bind_weights(options_.model, "weight", options_.weights, weights);
  has_gradients_ = !gradients.empty();
  if (has_gradients_) gradients_ = bind_weights(options_.model, "gradient", options_.gradients, gradients);
}

void Network::check(const MicroBatch& batch) const {
  const Index rows = checked_mul(batch.sequences, batch.sequence_length);
  if (batch.sequences < 1 || batch.sequences > options_.micro_batch || batch.sequence_length < 1 || batch.sequence_length > options_.sequence_length) {
    throw ShapeError(fmt::format("[model] a micro-batch of {} sequences of {} tokens; memory was planned for {} of {}", batch.sequences, batch.sequence_length, options_.micro_batch, options_.sequence_length));
  }
  if (static_cast<Index>(batch.inputs.size()) != rows || static_cast<Index>(batch.labels.size()) != rows) {
    throw ShapeError(fmt::format("[model] {} inputs and {} labels for {} rows", batch.inputs.size(), batch.labels.size(), rows));
  }
  const auto check_ids = [&](std::span<const std::int32_t> ids, std::string_view what, bool may_be_ignored) {
    for (std::size_t t = 0; t < ids.size(); ++t) {
      if ((ids[t] >= 0 && ids[t] < options_.model.vocab_size) || (may_be_ignored && ids[t] == ops::kIgnoredLabel)) continue;
      throw DataError(fmt::format("[model] {} {} at position {} of sequence {} is outside the vocabulary of {}", what, ids[t], static_cast<Index>(t) % batch.sequence_length, static_cast<Index>(t) / batch.sequence_length, options_.model.vocab_size));
    }
  };
  check_ids(batch.inputs, "token id", false);
  check_ids(batch.labels, "label", true);
}

/// Sets up the rows of this micro-batch; memory comes after what the constructor laid down.
void Network::begin(const MicroBatch& batch) {
  if (!context_.is_planning) check(batch);
  context_.sequences = batch.sequences;
  context_.sequence_length = batch.sequence_length;
  context_.positions_T = positions_.rows(0, context_.rows());
  if (!context_.is_planning && positions_length_ != batch.sequence_length) {
    fill_positions(batch.sequence_length, 0, positions_);
    positions_length_ = batch.sequence_length;
  }
  lse_squares_ = 0;
  if (!options_.model.is_moe) return;
  const Index groups = balance_options_.is_by_sequence ? batch.sequences : 1;
  counts_LGE_ = context_.arena.alloc(DType::kI64, {options_.model.num_hidden_layers, groups, options_.model.num_experts});
  sums_LGE_ = context_.arena.alloc(DType::kF64, counts_LGE_.shape());
}

ConstView Network::rows_view(std::span<const std::int32_t> values) const { return {reinterpret_cast<const std::byte*>(values.data()), DType::kI32, {context_.rows()}}; }

void Network::report(std::string_view what, Index layer, ConstView value) const {
  if (probe_) probe_(what, layer, value);
}

/// Forward of block `layer`; what it keeps lies in the arena from here on.
void Network::run_layer(Index layer, View x_TD, View y_TD) {
  const LayerContext lc = layer_context();
  RoutingStatistics statistics;
  if (lc.moe != nullptr) statistics = {counts_LGE_[layer], sums_LGE_[layer]};
  LogitsProbe probe;
  if (probe_) probe = [this, layer](ConstView logits_TE) { report("router_logits", layer, logits_TE); };

  LayerSaved& s = saved_[static_cast<std::size_t>(layer)];
  s = allocate_layer(lc, statistics);
  layer_forward(lc, weights_.layers[static_cast<std::size_t>(layer)], x_TD, y_TD, s, probe);
  if (lc.moe != nullptr) lse_squares_ += ops::sum_squares(context_.backend, s.moe.routing.lse_T);
  if (layer + 1 < options_.model.num_hidden_layers) report("hidden", layer + 1, y_TD);
}

double Network::run_head(const MicroBatch& batch, const HeadCall& call) {
  HeadCall complete = call;
  complete.labels_T = rows_view(batch.labels);
  if (probe_) complete.probe_hidden = [this](ConstView n_TD) { report("hidden", options_.model.num_hidden_layers, n_TD); };
  return head_forward_backward(context_, weights_.head, complete, gradients_.head);
}

MicroBatchResult Network::forward_backward(const MicroBatch& batch, const LossScale& scale, const GlobalExpertCounts& global) {
  OPTIMUS_CHECK(has_gradients_ && options_.has_backward, "backward needs gradients and memory for them");
  OPTIMUS_CHECK(context_.is_planning || !options_.model.is_moe || balance_options_.is_global != global.counts_LE.empty(), "scope global_batch, and no other, comes with counts of the global batch");
  Scratch scratch(context_.arena);
  begin(batch);
  const View d_TD = context_.alloc_rows(options_.model.hidden_size);
  View x_TD = scratch.like(d_TD);
  ops::embedding_forward(context_.backend, weights_.embedding_VD, rows_view(batch.inputs), x_TD);
  report("hidden", 0, x_TD);
  for (Index layer = 0; layer < options_.model.num_hidden_layers; ++layer) {
    const View y_TD = scratch.like(d_TD);
    run_layer(layer, x_TD, y_TD);
    x_TD = y_TD;
  }
  MicroBatchResult result;
  result.lm_loss_sum = run_head(batch, {.x_TD = x_TD, .labels_T = {}, .scale = scale.lm, .dx_TD = d_TD});
  finish(batch, global, result);
  backward_layers(scale, global, d_TD);
  ops::embedding_backward(context_.backend, d_TD, rows_view(batch.inputs), gradients_.embedding_VD);
  return result;
}

void Network::backward_layers(const LossScale& scale, const GlobalExpertCounts& global, View d_TD) {
  const Index layers = options_.model.num_hidden_layers;
  for (Index layer = layers - 1; layer >= 0; --layer) {
    Scratch scratch(context_.arena);
    RoutingLossGradient losses;
    if (options_.model.is_moe) {
      const View dp_GE = scratch.alloc(context_.wide, {counts_LGE_.size(1), counts_LGE_.size(2)});
      if (!context_.is_planning) balance(global).gradient(layer, scale.aux, dp_GE);
      losses = {.dp_GE = dp_GE, .z_scale = scale.z / static_cast<double>(layers * context_.rows())};
    }
    const auto at = static_cast<std::size_t>(layer);
    layer_backward(layer_context(), weights_.layers[at], saved_[at], losses, d_TD, gradients_.layers[at]);
  }
}

MicroBatchResult Network::forward(const MicroBatch& batch, const LogitsSink& sink) {
  Scratch scratch(context_.arena);
  begin(batch);
  View x_TD = context_.alloc_rows(options_.model.hidden_size), y_TD = scratch.like(x_TD);
  ops::embedding_forward(context_.backend, weights_.embedding_VD, rows_view(batch.inputs), x_TD);
  report("hidden", 0, x_TD);
  for (Index layer = 0; layer < options_.model.num_hidden_layers; ++layer) {
    const Scratch kept_by_layer(context_.arena);  // no backward will ask for it
    run_layer(layer, x_TD, y_TD);
    std::swap(x_TD, y_TD);
  }
  MicroBatchResult result;
  result.lm_loss_sum = run_head(batch, {.x_TD = x_TD, .labels_T = {}, .dx_TD = {}, .sink = &sink});
  finish(batch, {}, result);
  return result;
}

Balance Network::balance(const GlobalExpertCounts& global) const {
  BalanceOptions options = balance_options_;
  options.is_global = !global.counts_LE.empty();
  return {options, counts_LGE_, sums_LGE_, context_.rows() / counts_LGE_.size(1), global};
}

void Network::finish(const MicroBatch& batch, const GlobalExpertCounts& global, MicroBatchResult& result) {
  if (context_.is_planning) return;
  result.valid_labels = std::count_if(batch.labels.begin(), batch.labels.end(), [](std::int32_t label) { return label != ops::kIgnoredLabel; });
  if (!options_.model.is_moe) return;
  const Index layers = counts_LGE_.size(0), groups = counts_LGE_.size(1), experts = counts_LGE_.size(2);
  result.aux_loss = balance(global).loss();
  result.z_loss = lse_squares_ / static_cast<double>(layers * context_.rows());
  const auto counts = counts_LGE_.span<std::int64_t>();
  for (Index le = 0; le < layers * experts; ++le) {
    std::int64_t sum = 0;
    for (Index g = 0; g < groups; ++g) sum += counts[static_cast<std::size_t>((le / experts * groups + g) * experts + le % experts)];
    counts_LE_[static_cast<std::size_t>(le)] = sum;
  }
}

}  // namespace optimus
