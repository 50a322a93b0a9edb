#include "optimus/model/network.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "optimus/base/check.hpp"
#include "optimus/ops/loss.hpp"
#include "optimus/ops/misc.hpp"
#include "optimus/ops/update.hpp"

namespace optimus {

Network::Network(const TransformerOptions& options, Backend& backend, Arena& arena, bool is_planning)
    : runtime_(options, backend, arena, is_planning),
      context_(runtime_.context),
      model_(runtime_.options.model),
      balance_options_(balance_options(options.moe)) {
  saved_.resize(static_cast<std::size_t>(model_.num_hidden_layers));
  if (model_.is_moe) counts_LE_.resize(static_cast<std::size_t>(checked_mul(model_.num_hidden_layers, model_.num_experts)));
}

void Network::bind(std::span<const View> weights, std::span<const View> gradients) {
  weights_ = bind_weights(model_, "weight", runtime_.options.weights, weights);
  has_gradients_ = !gradients.empty();
  if (has_gradients_) gradients_ = bind_weights(model_, "gradient", runtime_.options.gradients, gradients);
}

void Network::check(const MicroBatch& batch) const {
  const Index rows = checked_mul(batch.sequences, batch.sequence_length);
  if (batch.sequences < 1 || batch.sequences > runtime_.options.micro_batch || batch.sequence_length < 1 ||
      batch.sequence_length > runtime_.options.sequence_length) {
    throw ShapeError(fmt::format("[model] a micro-batch of {} sequences of {} tokens; memory was planned for {} of {}", batch.sequences, batch.sequence_length,
                                 runtime_.options.micro_batch, runtime_.options.sequence_length));
  }
  if (static_cast<Index>(batch.inputs.size()) != rows || static_cast<Index>(batch.labels.size()) != rows) {
    throw ShapeError(fmt::format("[model] {} inputs and {} labels for {} rows", batch.inputs.size(), batch.labels.size(), rows));
  }
  check_ids(model_, batch.inputs, "token id", batch.sequence_length);
  check_ids(model_, batch.labels, "label", batch.sequence_length);
}

/// Sets up the rows of this micro-batch; memory comes after what the constructor laid down.
void Network::begin(const MicroBatch& batch) {
  if (!context_.is_planning) check(batch);
  runtime_.set_rows(batch.sequences, batch.sequence_length, 0);
  lse_squares_ = 0;
  if (!model_.is_moe) return;
  const Index groups = balance_options_.is_by_sequence ? batch.sequences : 1;
  counts_LGE_ = context_.arena.alloc(DType::kI64, {model_.num_hidden_layers, groups, model_.num_experts});
  sums_LGE_ = context_.arena.alloc(DType::kF64, counts_LGE_.shape());
}

ConstView Network::rows_view(std::span<const std::int32_t> values) const {
  return {reinterpret_cast<const std::byte*>(values.data()), DType::kI32, {context_.rows()}};
}

void Network::report(std::string_view what, Index layer, ConstView value) const {
  if (probe_) probe_(what, layer, value);
}

/// Forward of block `layer`; what it keeps lies in the arena from here on.
void Network::run_layer(Index layer, View x_TD, View y_TD) {
  const LayerContext lc = runtime_.layer_context();
  RoutingStatistics statistics;
  if (lc.moe != nullptr) statistics = {counts_LGE_[layer], sums_LGE_[layer]};
  LogitsProbe probe;
  if (probe_) probe = [this, layer](ConstView logits_TE) { report("router_logits", layer, logits_TE); };

  LayerSaved& s = saved_[static_cast<std::size_t>(layer)];
  s = allocate_layer(lc, statistics);
  layer_forward(lc, weights_.layers[static_cast<std::size_t>(layer)], x_TD, y_TD, s, probe);
  if (lc.moe != nullptr) lse_squares_ += ops::sum_squares(context_.backend, s.moe.routing.lse_T);
  if (layer + 1 < model_.num_hidden_layers) report("hidden", layer + 1, y_TD);
}

double Network::run_head(const MicroBatch& batch, const HeadCall& call) {
  HeadCall complete = call;
  complete.labels_T = rows_view(batch.labels);
  if (probe_) complete.probe_hidden = [this](ConstView n_TD) { report("hidden", model_.num_hidden_layers, n_TD); };
  return head_forward_backward(context_, weights_.head, complete, gradients_.head);
}

MicroBatchResult Network::forward_backward(const MicroBatch& batch, const LossScale& scale, const GlobalExpertCounts& global) {
  OPTIMUS_CHECK(has_gradients_ && runtime_.options.has_backward, "backward needs gradients and memory for them");
  OPTIMUS_CHECK(context_.is_planning || !model_.is_moe || balance_options_.is_global != global.counts_LE.empty(),
                "scope global_batch, and no other, comes with counts of the global batch");
  Scratch scratch(context_.arena);
  begin(batch);
  const View d_TD = context_.alloc_rows(model_.hidden_size);
  View x_TD = scratch.like(d_TD);
  ops::embedding_forward(context_.backend, weights_.embedding_VD, rows_view(batch.inputs), x_TD);
  report("hidden", 0, x_TD);
  for (Index layer = 0; layer < model_.num_hidden_layers; ++layer) {
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
  const Index layers = model_.num_hidden_layers;
  for (Index layer = layers - 1; layer >= 0; --layer) {
    Scratch scratch(context_.arena);
    RoutingLossGradient losses;
    if (model_.is_moe) {
      const View dp_GE = scratch.alloc(context_.wide, {counts_LGE_.size(1), counts_LGE_.size(2)});
      if (!context_.is_planning) balance(global).gradient(layer, scale.aux, dp_GE);
      losses = {.dp_GE = dp_GE, .z_scale = scale.z / static_cast<double>(layers * context_.rows())};
    }
    const auto at = static_cast<std::size_t>(layer);
    layer_backward(runtime_.layer_context(), weights_.layers[at], saved_[at], losses, d_TD, gradients_.layers[at]);
  }
}

MicroBatchResult Network::forward(const MicroBatch& batch, const LogitsSink& sink) {
  Scratch scratch(context_.arena);
  begin(batch);
  View x_TD = context_.alloc_rows(model_.hidden_size), y_TD = scratch.like(x_TD);
  ops::embedding_forward(context_.backend, weights_.embedding_VD, rows_view(batch.inputs), x_TD);
  report("hidden", 0, x_TD);
  for (Index layer = 0; layer < model_.num_hidden_layers; ++layer) {
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
  if (!model_.is_moe) return;
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
