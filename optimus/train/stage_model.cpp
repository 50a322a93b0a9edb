#include "optimus/train/stage_model.hpp"

#include <algorithm>
#include <cmath>

#include "optimus/base/check.hpp"

namespace optimus {
namespace {

pipeline::MessageFormats message_formats(const TransformerOptions& options) {
  const StageRows rows = stage_rows(options);
  const pipeline::MessageFormat format{
      .dtype = rows.rows_TD.dtype(), .rows = rows.rows_TD.shape(), .num_counts = options.model.is_moe ? rows.counts_GE.count() : 0};
  return {.forward = format, .backward = format};
}

/// A single micro-batch is the global batch: its own counts are those of all.
void simplify_scope(const RunConfig& config, MoeConfig& moe) {
  if (config.batch.global_batch == config.batch.micro_batch && moe.aux_loss_scope == "global_batch") moe.aux_loss_scope = "micro_batch";
}

}  // namespace

StagePlan::StagePlan(const RunConfig& config, const Mesh& mesh, Index rank) : stage(mesh.member_index(rank, Axis::kPp)) {
  const ParallelConfig& p = config.parallel;
  schedule = pipeline::build_schedule({.name = p.pipeline_schedule,
                                       .stages = p.pp,
                                       .virtual_stages = p.virtual_stages,
                                       .micro_batches = config.batch.global_batch / mesh.data_ranks() / config.batch.micro_batch});
  chunks = stage_chunks(config.shape, p, stage);
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    TransformerOptions o = transformer_options(config);
    simplify_scope(config, o.moe);
    o.layers = chunks[chunk];
    o.split = model_split(mesh, rank);
    o.sequence_parallel = p.sequence_parallel && p.tp > 1;
    o.overlap = p.overlap;
    o.splits_backward = schedule.splits_backward();
    o.slots = schedule.slots(stage, static_cast<Index>(chunk));
    options.push_back(std::move(o));
  }
  formats = message_formats(options.front());
}

ActivationPlan StagePlan::activations() const {
  ActivationPlan sum;
  for (const TransformerOptions& o : options) {
    const ActivationPlan plan = plan_activations(o);
    sum.bytes = checked_add(sum.bytes, plan.bytes - plan.temporary_bytes);
    sum.temporary_bytes = std::max(sum.temporary_bytes, plan.temporary_bytes);
    sum.gemm_flops += plan.gemm_flops;
    sum.attention_flops += plan.attention_flops;
  }
  sum.bytes = checked_add(sum.bytes, sum.temporary_bytes);
  return sum;
}

Index StagePlan::buffer_bytes(bool overlap) const { return pipeline::plan_bytes(schedule, stage, formats, overlap); }

/// The chunks in training.
class StageModel::Training : public pipeline::StageWork {
 public:
  Training(StageModel& model, const TrainingPass& pass) : model_(model), pass_(pass) {}

  void forward(const pipeline::Action& a, const pipeline::StageMessage& received, const pipeline::StageMessage& sent) override {
    Transformer& chunk = begin(a, false);
    chunk.stage_forward(a.slot, pass_.micro_batch(a.micro_batch), pass_.scale, model_.rows_of(received, a.chunk), model_.rows_of(sent, a.chunk));
    tell_sent(sent);
  }
  void backward(const pipeline::Action& a, const pipeline::StageMessage& received, const pipeline::StageMessage& sent) override {
    Transformer& chunk = begin(a, true);
    model_.add(a, chunk.stage_backward(a.slot, pass_.micro_batch(a.micro_batch), pass_.scale, pass_.global_counts, model_.rows_of(received, a.chunk),
                                       model_.rows_of(sent, a.chunk)));
    tell_sent(sent);
  }
  void backward_input(const pipeline::Action& a, const pipeline::StageMessage& received, const pipeline::StageMessage& sent) override {
    Transformer& chunk = begin(a, true);
    model_.add(a, chunk.stage_backward_input(a.slot, pass_.micro_batch(a.micro_batch), pass_.scale, pass_.global_counts, model_.rows_of(received, a.chunk),
                                             model_.rows_of(sent, a.chunk)));
    tell_sent(sent);
  }
  void backward_weight(const pipeline::Action& a) override { begin(a, true).stage_backward_weight(a.slot); }

 private:
  Transformer& begin(const pipeline::Action& a, bool is_backward) {
    if (pass_.at) pass_.at(model_.place_of(a, is_backward));
    const bool is_last = a.micro_batch + 1 == model_.plan_.schedule.micro_batches;
    TransformerHooks hooks{.before_forward = model_.hooks_.before_forward, .after_backward = {}, .poll = [this] { model_.poll(*model_.training_); }};
    if (is_backward && is_last) hooks.after_backward = model_.hooks_.after_backward;
    Transformer& chunk = model_.chunks_[static_cast<std::size_t>(a.chunk)];
    chunk.set_hooks(std::move(hooks));
    return chunk;
  }
  void tell_sent(const pipeline::StageMessage& sent) const {
    if (pass_.sent && sent.rows.exists()) pass_.sent(sent.rows);
  }
  StageModel& model_;
  const TrainingPass& pass_;
};

/// The chunks when nothing goes backward.
class StageModel::Forward : public pipeline::StageWork {
 public:
  Forward(StageModel& model, pipeline::Executor& executor, const MicroBatchAt& micro_batch, const Sink& sink)
      : model_(model), executor_(executor), micro_batch_(micro_batch), sink_(sink) {}

  void forward(const pipeline::Action& a, const pipeline::StageMessage& received, const pipeline::StageMessage& sent) override {
    Transformer& chunk = model_.chunks_[static_cast<std::size_t>(a.chunk)];
    chunk.set_hooks({.before_forward = model_.hooks_.before_forward, .after_backward = {}, .poll = [this] { model_.poll(executor_); }});
    LogitsSink sink;
    if (sink_) sink = [this, &a](Index first_row, ConstView logits_TV) { sink_(a.micro_batch, first_row, logits_TV); };
    model_.add(a, chunk.stage_forward_only(micro_batch_(a.micro_batch), model_.rows_of(received, a.chunk), model_.rows_of(sent, a.chunk), sink));
  }
  void backward(const pipeline::Action&, const pipeline::StageMessage&, const pipeline::StageMessage&) override { refuse(); }
  void backward_input(const pipeline::Action&, const pipeline::StageMessage&, const pipeline::StageMessage&) override { refuse(); }
  void backward_weight(const pipeline::Action&) override { refuse(); }

 private:
  static void refuse() { throw InternalError("[train] a forward pass has no backward"); }
  StageModel& model_;
  pipeline::Executor& executor_;
  const MicroBatchAt& micro_batch_;
  const Sink& sink_;
};

StageModel::StageModel(const RunConfig& config, const Mesh& mesh, const RankGroups& groups, Backend& backend)
    : plan_(config, mesh, groups.world.rank()),
      groups_(groups),
      overlap_(config.parallel.overlap),
      specs_(parameter_specs(config.shape, plan_.chunks)),
      temporaries_(plan_.activations().temporary_bytes) {
  for (const TransformerOptions& options : plan_.options) chunks_.emplace_back(options, backend, groups.model_groups(), &temporaries_);
  training_ = std::make_unique<pipeline::Executor>(plan_.schedule, *groups.pp, plan_.formats, overlap_);
  if (config.shape.is_moe) counts_LE_.resize(static_cast<std::size_t>(config.shape.num_hidden_layers * config.shape.num_experts));
}

StageModel::~StageModel() = default;

void StageModel::bind(std::span<const View> weights, std::span<const View> gradients) {
  std::size_t at = 0;
  for (std::size_t chunk = 0; chunk < chunks_.size(); ++chunk) {
    const std::size_t count = parameter_specs(plan_.options[chunk].model, plan_.chunks[chunk]).size();
    chunks_[chunk].bind(weights.subspan(at, count), gradients.empty() ? gradients : gradients.subspan(at, count));
    at += count;
  }
  OPTIMUS_CHECK(at == weights.size(), "weights of this rank's chunks and no others");
}

StageRows StageModel::rows_of(const pipeline::StageMessage& message, Index chunk) const {
  StageRows rows{.rows_TD = message.rows, .counts_GE = message.counts};
  if (rows.counts_GE.exists()) {
    const Index experts = plan_.options[static_cast<std::size_t>(chunk)].model.num_experts;
    rows.counts_GE = rows.counts_GE.reshaped({rows.counts_GE.count() / experts, experts});
  }
  return rows;
}

void StageModel::poll(pipeline::Executor& executor) const {
  executor.progress();
  if (hooks_.poll) hooks_.poll();
}

void StageModel::begin_pass() {
  sums_ = {};
  std::ranges::fill(counts_LE_, 0);
}

Place StageModel::place_of(const pipeline::Action& action, bool is_backward) const {
  const Index chunks = plan_.schedule.num_chunks(), chunk = plan_.schedule.global_chunk(plan_.stage, action.chunk);
  return {.activity = is_backward ? Activity::kBackward : Activity::kForward,
          .micro_batch = action.micro_batch,
          .order = 2 * chunks * action.micro_batch + (is_backward ? 2 * chunks - 1 - chunk : chunk)};
}

void StageModel::add(const pipeline::Action& action, const MicroBatchResult& result) {
  if (!std::isfinite(result.lm_loss_sum + result.aux_loss + result.z_loss) && !sums_.nonfinite_order) sums_.nonfinite_order = place_of(action, false).order;
  sums_.lm_loss += result.lm_loss_sum;
  sums_.aux_loss += result.aux_loss;
  sums_.z_loss += result.z_loss;
  sums_.valid_labels += result.valid_labels;
  const auto at = static_cast<std::size_t>(action.chunk);
  const auto counts = chunks_[at].expert_counts();
  const std::size_t first = static_cast<std::size_t>(plan_.chunks[at].begin * plan_.options[at].model.num_experts);
  for (std::size_t i = 0; i < counts.size(); ++i) counts_LE_[first + i] += counts[i];
}

PassSums StageModel::train(const TrainingPass& pass) {
  begin_pass();
  Training work(*this, pass);
  training_->run(work);
  return sums_;
}

pipeline::Executor& StageModel::forward_executor(Index count) {
  auto& executor = forward_[count];
  if (!executor) {
    const auto& s = plan_.schedule;
    const auto schedule = pipeline::build_schedule({.name = "forward", .stages = s.stages, .virtual_stages = s.virtual_stages, .micro_batches = count});
    executor = std::make_unique<pipeline::Executor>(schedule, *groups_.pp, plan_.formats, overlap_);
  }
  return *executor;
}

PassSums StageModel::forward(const MicroBatchAt& micro_batch, Index count, const Sink& sink) {
  begin_pass();
  pipeline::Executor& executor = forward_executor(count);
  Forward work(*this, executor, micro_batch, sink);
  executor.run(work);
  return sums_;
}

}  // namespace optimus
