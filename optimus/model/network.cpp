#include "optimus/model/network.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "optimus/base/check.hpp"
#include "optimus/base/counted.hpp"
#include "optimus/model/embedding.hpp"
#include "optimus/ops/loss.hpp"
#include "optimus/ops/misc.hpp"
#include "optimus/ops/update.hpp"

namespace optimus {

Network::Network(const TransformerOptions& options, Backend& backend, const ModelGroups& groups, const NetworkMemory& memory, bool is_planning)
    : runtime_(options, backend, groups, {memory.temporaries, memory.slots.front()}, is_planning),
      context_(runtime_.context),
      model_(runtime_.options.model),
      range_(options.layer_range()),
      slots_(memory.slots),
      balance_options_(balance_options(options.moe)),
      saved_(memory.slots.size()) {
  for (std::size_t slot = 0; slot < saved_.size(); ++slot) {
    saved_[slot].layers.resize(static_cast<std::size_t>(range_.count()));
    saved_[slot].products.resize(saved_[slot].layers.size());
    saved_[slot].begin = slots_[slot].used();
  }
  if (model_.is_moe) counts_LE_.resize(static_cast<std::size_t>(checked_mul(range_.count(), model_.num_experts)));
}

void Network::bind(std::span<const View> weights, std::span<const View> gradients) {
  weights_ = bind_weights(runtime_.options, "weight", runtime_.options.weights, weights);
  has_gradients_ = gradients.size() == weights.size();  // both may be none: a stage without layers
  if (has_gradients_) gradients_ = bind_weights(runtime_.options, "gradient", runtime_.options.gradients, gradients);
}

void Network::set_hooks(TransformerHooks hooks) {
  hooks_ = std::move(hooks);
  runtime_.set_poll(hooks_.poll ? &hooks_.poll : nullptr);
}

void Network::check(const MicroBatch& batch) const {
  const Index rows = checked_mul(batch.sequences, batch.sequence_length);
  if (batch.sequences < 1 || batch.sequences > runtime_.options.micro_batch || batch.sequence_length < 1 ||
      batch.sequence_length > runtime_.options.sequence_length) {
    throw ShapeError(fmt::format("[model] a micro-batch of {} of {}; memory was planned for {} of {}", counted(batch.sequences, "sequence"),
                                 counted(batch.sequence_length, "token"), runtime_.options.micro_batch, runtime_.options.sequence_length));
  }
  if (context_.is_sequence_parallel() && rows % runtime_.options.split.tp != 0) {
    throw ShapeError(
        fmt::format("[model] sequence parallelism over {} cannot share out {} evenly", counted(runtime_.options.split.tp, "rank"), counted(rows, "row")));
  }
  if (static_cast<Index>(batch.inputs.size()) != rows || static_cast<Index>(batch.labels.size()) != rows) {
    throw ShapeError(
        fmt::format("[model] {} and {} for {}", counted(batch.inputs.size(), "input"), counted(batch.labels.size(), "label"), counted(rows, "row")));
  }
  check_ids(model_, batch.inputs, "token id", batch.sequence_length);
  check_ids(model_, batch.labels, "label", batch.sequence_length);
}

/// Sets up the rows of this micro-batch, whose slot is empty.
Network::Saved& Network::begin(Index slot, const MicroBatch& batch) {
  if (!context_.is_planning) check(batch);
  Arena& arena = slots_[static_cast<std::size_t>(slot)];
  Saved& s = saved_[static_cast<std::size_t>(slot)];
  arena.release_to(s.begin);
  runtime_.keep_in(arena);
  runtime_.set_rows(batch.sequences, batch.sequence_length, 0);
  for (WeightProducts& products : s.products) products.clear();
  s.lse_squares = s.lm_loss_sum = 0;
  if (!model_.is_moe) return s;
  const Index groups = balance_options_.is_by_sequence ? batch.sequences : 1;
  s.counts_LGE = context_.keep(DType::kI64, {range_.count(), groups, model_.num_experts});
  s.sums_LGE = context_.keep(DType::kF64, s.counts_LGE.shape());
  s.total_GE = context_.keep(DType::kI64, {groups, model_.num_experts});
  return s;
}

void Network::report(std::string_view what, Index layer, ConstView value) const {
  if (probe_) probe_(what, layer, value);
}

void Network::will_read(Index layer) const {
  if (hooks_.poll) hooks_.poll();
  if (hooks_.before_forward) hooks_.before_forward(layer);
}

void Network::has_gradients(Index layer) const {
  if (hooks_.poll) hooks_.poll();
  if (hooks_.after_backward && !is_split_) hooks_.after_backward(layer);
}

/// The input of the first own layer.
View Network::first_rows(const MicroBatch& batch, const StageRows& received) {
  const View x_lD = context_.keep_local_rows(model_.hidden_size);
  if (!range_.has_embedding) {
    ops::copy(context_.backend, received.rows_TD, x_lD);
    return x_lD;
  }
  will_read(-1);
  embedding_forward(context_, weights_.embedding_VD, rows_view(context_, batch.inputs), x_lD);
  report("hidden", 0, x_lD);
  return x_lD;
}

/// Forward of the own layer `layer`; what it keeps lies in the slot's arena from here on.
void Network::run_layer(Saved& saved, Index layer, View x_lD, View y_lD) {
  will_read(range_.begin + layer);
  const LayerContext lc = runtime_.layer_context();
  RoutingStatistics statistics;
  if (lc.moe != nullptr) statistics = {saved.counts_LGE[layer], saved.sums_LGE[layer]};
  LogitsProbe probe;
  if (probe_) probe = [this, layer](ConstView logits_TE) { report("router_logits", range_.begin + layer, logits_TE); };

  LayerSaved& s = saved.layers[static_cast<std::size_t>(layer)];
  s = allocate_layer(lc, statistics);
  layer_forward(lc, weights_.layers[static_cast<std::size_t>(layer)], x_lD, y_lD, s, probe);
  if (lc.moe != nullptr) saved.lse_squares += ops::sum_squares(context_.backend, s.moe.routing.lse_T);
  if (range_.begin + layer + 1 < model_.num_hidden_layers) report("hidden", range_.begin + layer + 1, y_lD);
}

double Network::run_head(const MicroBatch& batch, const HeadCall& call) {
  will_read(model_.num_hidden_layers);
  HeadCall complete = call;
  complete.labels_T = rows_view(context_, batch.labels);
  if (probe_) complete.probe_hidden = [this](ConstView n_lD) { report("hidden", model_.num_hidden_layers, n_lD); };
  return head_forward_backward(context_, weights_.head, complete, gradients_.head);
}

/// The counts of all layers so far; sent on where a chunk follows.
void Network::add_counts(Saved& s, const StageRows& received, const StageRows& sent) const {
  if (!model_.is_moe || context_.is_planning) return;
  const auto total = s.total_GE.span<std::int64_t>(), counts = s.counts_LGE.span<std::int64_t>();
  if (received.counts_GE.exists()) std::ranges::copy(received.counts_GE.span<std::int64_t>(), total.begin());
  else std::ranges::fill(total, 0);
  for (std::size_t i = 0; i < counts.size(); ++i) total[i % total.size()] += counts[i];
  if (sent.counts_GE.exists()) std::ranges::copy(total, sent.counts_GE.span<std::int64_t>().begin());
}

void Network::forward(Index slot, const MicroBatch& batch, const LossScale& scale, const StageRows& received, const StageRows& sent) {
  OPTIMUS_CHECK(has_gradients_ && runtime_.options.has_backward, "backward needs gradients and memory for them");
  Saved& s = begin(slot, batch);
  if (range_.has_head) s.d_lD = context_.keep_local_rows(model_.hidden_size);
  View x_lD = first_rows(batch, received);
  for (Index layer = 0; layer < range_.count(); ++layer) {
    const bool is_sent = layer + 1 == range_.count() && !range_.has_head;
    const View y_lD = is_sent ? sent.rows_TD : context_.keep_local_rows(model_.hidden_size);
    run_layer(s, layer, x_lD, y_lD);
    x_lD = y_lD;
  }
  add_counts(s, received, sent);
  if (range_.has_head) s.lm_loss_sum = run_head(batch, {.x_lD = x_lD, .labels_T = {}, .scale = scale.lm, .dx_lD = s.d_lD});
  else if (range_.count() == 0) ops::copy(context_.backend, x_lD, sent.rows_TD);
}

void Network::backward_layers(Saved& s, const LossScale& scale, const GlobalExpertCounts& global, View d_lD) {
  for (Index layer = range_.count() - 1; layer >= 0; --layer) {
    Scratch scratch(context_.arena);
    RoutingLossGradient losses;
    if (model_.is_moe) {
      const View dp_GE = scratch.alloc(context_.wide, s.total_GE.shape());
      if (!context_.is_planning) balance(s, global).gradient(layer, scale.aux, dp_GE);
      losses = {.dp_GE = dp_GE, .z_scale = scale.z / static_cast<double>(model_.num_hidden_layers * context_.rows())};
    }
    const auto at = static_cast<std::size_t>(layer);
    runtime_.defer_to(is_split_ ? &s.products[at] : nullptr);
    layer_backward(runtime_.layer_context(), weights_.layers[at], s.layers[at], losses, d_lD, gradients_.layers[at]);
    has_gradients(range_.begin + layer);
  }
}

MicroBatchResult Network::backward(Index slot, const MicroBatch& batch, const LossScale& scale, const GlobalExpertCounts& global, const StageRows& received,
                                   const StageRows& sent) {
  OPTIMUS_CHECK(!runtime_.options.splits_backward, "memory was planned for a backward in two parts");
  return backward(resume(slot, batch), batch, scale, global, received, sent);
}

MicroBatchResult Network::backward_input(Index slot, const MicroBatch& batch, const LossScale& scale, const GlobalExpertCounts& global,
                                         const StageRows& received, const StageRows& sent) {
  OPTIMUS_CHECK(runtime_.options.splits_backward, "a backward in two parts needs memory for what lies between them");
  is_split_ = true;
  const MicroBatchResult result = backward(resume(slot, batch), batch, scale, global, received, sent);
  is_split_ = false;
  return result;
}

void Network::backward_weight(Index slot) {
  Saved& s = saved_[static_cast<std::size_t>(slot)];
  if (range_.has_head) has_gradients(model_.num_hidden_layers);
  for (Index layer = range_.count() - 1; layer >= 0; --layer) {
    WeightProducts& products = s.products[static_cast<std::size_t>(layer)];
    for (const WeightProduct& product : products) {
      make_weight_gradient(context_.backend, product);
      context_.poll();
    }
    products.clear();
    has_gradients(range_.begin + layer);
  }
  if (range_.has_embedding) has_gradients(-1);
}

/// Back to a micro-batch that has had its forward.
Network::Saved& Network::resume(Index slot, const MicroBatch& batch) {
  runtime_.keep_in(slots_[static_cast<std::size_t>(slot)]);
  runtime_.set_rows(batch.sequences, batch.sequence_length, 0);
  return saved_[static_cast<std::size_t>(slot)];
}

MicroBatchResult Network::backward(Saved& s, const MicroBatch& batch, const LossScale& scale, const GlobalExpertCounts& global, const StageRows& received,
                                   const StageRows& sent) {
  OPTIMUS_CHECK(context_.is_planning || !model_.is_moe || balance_options_.is_global != global.counts_LE.empty(),
                "scope global_batch, and no other, comes with counts of the global batch");
  if (model_.is_moe && received.counts_GE.exists()) ops::copy(context_.backend, received.counts_GE, s.total_GE);
  if (model_.is_moe && sent.counts_GE.exists()) ops::copy(context_.backend, s.total_GE, sent.counts_GE);
  const View d_lD = range_.has_head ? s.d_lD : received.rows_TD;
  if (range_.has_head) has_gradients(model_.num_hidden_layers);
  const MicroBatchResult result = finish(s, batch, global);
  backward_layers(s, scale, global, d_lD);
  runtime_.defer_to(nullptr);
  if (!range_.has_embedding) {
    ops::copy(context_.backend, d_lD, sent.rows_TD);
    return result;
  }
  embedding_backward(context_, d_lD, rows_view(context_, batch.inputs), gradients_.embedding_VD);
  has_gradients(-1);
  return result;
}

MicroBatchResult Network::forward_only(const MicroBatch& batch, const StageRows& received, const StageRows& sent, const LogitsSink& sink) {
  Saved& s = begin(0, batch);
  View x_lD = first_rows(batch, received), y_lD = context_.keep_local_rows(model_.hidden_size);
  for (Index layer = 0; layer < range_.count(); ++layer) {
    const Scratch kept_by_layer(*context_.kept);  // no backward will ask for it
    run_layer(s, layer, x_lD, y_lD);
    std::swap(x_lD, y_lD);
  }
  add_counts(s, received, sent);
  if (range_.has_head) s.lm_loss_sum = run_head(batch, {.x_lD = x_lD, .labels_T = {}, .dx_lD = {}, .sink = &sink});
  else ops::copy(context_.backend, x_lD, sent.rows_TD);
  return finish(s, batch, {});
}

Balance Network::balance(const Saved& s, const GlobalExpertCounts& global) const {
  BalanceOptions options = balance_options_;
  options.is_global = !global.counts_LE.empty();
  const BalanceStatistics statistics{.counts_LGE = s.counts_LGE,
                                     .sums_LGE = s.sums_LGE,
                                     .total_GE = s.total_GE,
                                     .first_layer = range_.begin,
                                     .all_layers = model_.num_hidden_layers,
                                     .rows_per_group = context_.rows() / s.counts_LGE.size(1)};
  return {options, statistics, global};
}

MicroBatchResult Network::finish(Saved& s, const MicroBatch& batch, const GlobalExpertCounts& global) {
  MicroBatchResult result;
  if (context_.is_planning) return result;
  if (range_.has_head) {
    result.lm_loss_sum = s.lm_loss_sum;
    result.valid_labels = std::ranges::count_if(batch.labels, [](std::int32_t label) { return label != ops::kIgnoredLabel; });
  }
  if (!model_.is_moe) return result;
  result.aux_loss = balance(s, global).loss();
  result.z_loss = s.lse_squares / static_cast<double>(model_.num_hidden_layers * context_.rows());
  const Index groups = s.counts_LGE.size(1), experts = s.counts_LGE.size(2);
  const auto counts = s.counts_LGE.span<std::int64_t>();
  for (Index le = 0; le < range_.count() * experts; ++le) {
    std::int64_t sum = 0;
    for (Index g = 0; g < groups; ++g) sum += counts[static_cast<std::size_t>((le / experts * groups + g) * experts + le % experts)];
    counts_LE_[static_cast<std::size_t>(le)] = sum;
  }
  return result;
}

}  // namespace optimus
