#include "optimus/train/train_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "optimus/comm/two_level/two_level.hpp"

namespace optimus {
namespace {

template <class T> void sum_over(Communicator& world, std::span<T> values) {
  if (world.size() > 1) world.all_reduce(View(reinterpret_cast<std::byte*>(values.data()), dtype_of<T>, {static_cast<Index>(values.size())}), Reduce::kSum);
}

double ratio(double sum, Index count) { return count > 0 ? sum / static_cast<double>(count) : 0.0; }

const char* kind_of(double value) { return std::isnan(value) ? "nan" : "inf"; }

void call(const std::function<void()>& hook) {
  if (hook) hook();
}

/// Adds the time of a scope to a phase.
class PhaseTimer {
 public:
  PhaseTimer(PhaseSeconds& seconds, Phase phase) : total_(seconds[static_cast<std::size_t>(phase)]) {}
  ~PhaseTimer() { total_ += timer_.seconds(); }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

 private:
  double& total_;
  Timer timer_;
};

}  // namespace

RankGroups::RankGroups(Communicator& w, const Mesh& mesh, std::string_view two_level)
    : world(w),
      dp(make_reduction_group(w, mesh, Axis::kDp, two_level)),
      dp_ep(make_reduction_group(w, mesh, Axis::kDpEp, two_level)),
      ep(make_axis_group(w, mesh, Axis::kEp)) {}

ReplicaGroups RankGroups::replica_groups() const { return {.dp = dp.get(), .dp_ep = dp_ep.get(), .world = &world, .ep = ep.get()}; }

/// Of one rank's rows.
struct TrainStep::Sums {
  double lm_loss = 0, aux_loss = 0, z_loss = 0;
};

TrainStep::TrainStep(const RunConfig& config, const Mesh& mesh, RankGroups& groups, Backend& backend)
    : config_(config), world_(groups.world), micro_batches_(config.batch.global_batch / config.batch.micro_batch), specs_(parameter_specs(config.shape)) {
  const ShardedOptimizer::Options options{.optimizer = config.optimizer, .precision = config.precision, .parallel = config.parallel};
  optimizer_ = std::make_unique<ShardedOptimizer>(specs_, options, mesh, groups.world.rank(), groups.replica_groups(), backend);
  TransformerOptions options_of_model = transformer_options(config);
  // A single micro-batch is the global batch: its own counts are those of all.
  if (micro_batches_ == 1 && config.moe.aux_loss_scope == "global_batch") options_of_model.moe.aux_loss_scope = "micro_batch";
  transformer_ = std::make_unique<Transformer>(options_of_model, backend);
  transformer_->bind(optimizer_->weights(), optimizer_->gradients());
  const Index counts = config.shape.is_moe ? config.shape.num_hidden_layers * config.shape.num_experts : 0;
  counts_LE_.resize(static_cast<std::size_t>(counts));
  if (config.moe.aux_loss_scope == "global_batch" && micro_batches_ > 1) global_counts_LE_.resize(counts_LE_.size());
}

TrainStep::~TrainStep() = default;

template <class Action> void TrainStep::for_each_micro_batch(const Batch& batch, Action action) const {
  for (Index row = 0; row < batch.rows(); row += config_.batch.micro_batch) action(batch.rows(row, std::min(row + config_.batch.micro_batch, batch.rows())));
}

void TrainStep::add_expert_counts() {
  const auto counts = transformer_->expert_counts();
  for (std::size_t i = 0; i < counts.size(); ++i) counts_LE_[i] += counts[i];
}

void TrainStep::count_experts_first(const Batch& batch) {
  std::fill(counts_LE_.begin(), counts_LE_.end(), 0);
  for_each_micro_batch(batch, [this](const MicroBatch& rows) {
    (void)transformer_->forward(rows);
    add_expert_counts();
  });
  global_counts_LE_ = counts_LE_;
  sum_over<Index>(world_, global_counts_LE_);
}

TrainStep::Sums TrainStep::forward_backward(const Batch& batch, const LossScale& scale) {
  const Transformer::GlobalCounts global{.counts_LE = global_counts_LE_, .rows = config_.batch.global_batch * batch.sequence_length()};
  Sums sums;
  std::fill(counts_LE_.begin(), counts_LE_.end(), 0);
  for_each_micro_batch(batch, [&](const MicroBatch& rows) {
    const MicroBatchResult result = transformer_->forward_backward(rows, scale, global);
    sums.lm_loss += result.lm_loss_sum;
    sums.aux_loss += result.aux_loss;
    sums.z_loss += result.z_loss;
    add_expert_counts();
  });
  return sums;
}

std::string TrainStep::find_problem(const Sums& sums) const {
  const double loss = sums.lm_loss + sums.aux_loss + sums.z_loss;
  if (!std::isfinite(loss)) return fmt::format("{} loss", kind_of(loss));
  if (const auto gradient = optimizer_->find_nonfinite_gradient()) return fmt::format("{} gradient of {}", gradient->is_nan ? "nan" : "inf", gradient->name);
  // A weight that no row of this step met: found before the update would hand it to other ranks.
  if (const auto weight = optimizer_->find_nonfinite_weight()) return fmt::format("{} weight {}", weight->is_nan ? "nan" : "inf", weight->name);
  return "";
}

StepOutcome TrainStep::run(const Batch& batch, const StepSettings& settings, const StepHooks& hooks, PhaseSeconds& seconds) {
  StepOutcome outcome{.valid_labels = batch.valid_labels()};
  Sums sums;
  {
    const PhaseTimer timer(seconds, Phase::kForwardBackward);
    sum_over<Index>(world_, std::span(&outcome.valid_labels, 1));
    call(hooks.before_forward);
    if (!global_counts_LE_.empty()) count_experts_first(batch);
    optimizer_->zero_gradients();
    const auto pieces = static_cast<double>(micro_batches_);
    sums = forward_backward(
        batch, {.lm = ratio(1.0, outcome.valid_labels), .aux = config_.moe.aux_loss_coefficient / pieces, .z = config_.moe.z_loss_coefficient / pieces});
    if (hooks.local_loss) sums.lm_loss = hooks.local_loss(sums.lm_loss);
    call(hooks.after_backward);
  }
  {
    const PhaseTimer timer(seconds, Phase::kReduce);
    outcome.problem = find_problem(sums);
    std::array<double, 5> all = {sums.lm_loss, sums.aux_loss, sums.z_loss, outcome.problem.empty() ? 0.0 : 1.0, settings.wants_to_stop ? 1.0 : 0.0};
    sum_over<double>(world_, all);
    sum_over<Index>(world_, counts_LE_);
    outcome.lm_loss = ratio(all[0], outcome.valid_labels);
    outcome.aux_loss = ratio(all[1], micro_batches_);
    outcome.z_loss = ratio(all[2], micro_batches_);
    outcome.has_local_problem = all[3] > 0;
    outcome.wants_to_stop = all[4] > 0;
    if (outcome.has_local_problem) {
      outcome.update = {.grad_norm = std::nan(""), .is_finite = false};
      return outcome;
    }
    optimizer_->reduce_gradients();
    call(hooks.after_reduce);
  }
  const PhaseTimer timer(seconds, Phase::kUpdate);
  outcome.update = optimizer_->update(settings.lr, settings.may_clip);
  optimizer_->wait_weights();
  return outcome;
}

}  // namespace optimus
