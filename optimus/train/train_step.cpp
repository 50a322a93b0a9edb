#include "optimus/train/train_step.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

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

void come_to(const StepHooks& hooks, Activity activity) {
  if (hooks.at) hooks.at({.activity = activity});
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

TrainStep::TrainStep(const RunConfig& config, const Mesh& mesh, RankGroups& groups, Backend& backend, TransferWatch* transfers)
    : config_(config),
      groups_(groups),
      transfers_(transfers),
      micro_batches_(config.batch.global_batch / config.batch.micro_batch),
      speaks_for_model_(mesh.member_index(groups.world.rank(), Axis::kTp) == 0),
      speaks_for_labels_(speaks_for_model_ && mesh.member_index(groups.world.rank(), Axis::kPp) == 0),
      model_(std::make_unique<StageModel>(config, mesh, groups, backend)) {
  const ShardedOptimizer::Options options{.optimizer = config.optimizer, .precision = config.precision, .parallel = config.parallel};
  optimizer_ = std::make_unique<ShardedOptimizer>(model_->specs(), options, mesh, groups.world.rank(), groups.replica_groups(), backend);
  model_->bind(optimizer_->weights(), optimizer_->gradients());
  model_->set_hooks({.before_forward = [this](Index layer) { optimizer_->wait_weights(layer); },
                     .after_backward =
                         [this](Index layer) {
                           if (reduces_early_) optimizer_->gradients_complete(layer);
                         },
                     .poll = [this] { optimizer_->poll(); }});
  counts_LE_.resize(model_->expert_counts().size());
  if (config.moe.aux_loss_scope == "global_batch" && micro_batches_ > 1) global_counts_LE_.resize(counts_LE_.size());
}

TrainStep::~TrainStep() = default;

/// This rank's share of the counts of the global batch.
void TrainStep::add_expert_counts() {
  const auto counts = model_->expert_counts();
  if (speaks_for_model_) std::ranges::copy(counts, counts_LE_.begin());
  else std::ranges::fill(counts_LE_, 0);
}

void TrainStep::count_experts_first(const Batch& batch) {
  model_->forward(batch.micro_batches(config_.batch.micro_batch), batch.rows() / config_.batch.micro_batch);
  add_expert_counts();
  global_counts_LE_ = counts_LE_;
  sum_over<Index>(groups_.world, global_counts_LE_);
}

PassSums TrainStep::forward_backward(const Batch& batch, const LossScale& scale, const StepHooks& hooks) {
  if (transfers_ != nullptr) transfers_->start_looking();
  const PassSums sums = model_->train({.micro_batch = batch.micro_batches(config_.batch.micro_batch),
                                       .scale = scale,
                                       .global_counts = {.counts_LE = global_counts_LE_, .rows = config_.batch.global_batch * batch.sequence_length()},
                                       .at =
                                           [&](const Place& place) {
                                             if (transfers_ != nullptr) transfers_->enter(place.order);
                                             if (hooks.at) hooks.at(place);
                                           },
                                       .sent =
                                           [&](ConstView rows) {
                                             if (transfers_ != nullptr) transfers_->look_at(*groups_.pp, "send", rows);
                                           }});
  if (transfers_ != nullptr) transfers_->stop_looking();
  add_expert_counts();
  return sums;
}

/// What of this rank is not finite, and how early in the step that was.
void TrainStep::find_problem(const PassSums& sums, StepOutcome& outcome) const {
  constexpr Index kAtTheEnd = std::numeric_limits<Index>::max();
  const double loss = sums.lm_loss + sums.aux_loss + sums.z_loss;
  const auto gradient = optimizer_->find_nonfinite_gradient();
  // A weight before all else: what it spoilt came after it. And one that no row of this step met is found before the update would hand it to other ranks.
  if (const auto weight = optimizer_->find_nonfinite_weight()) {
    outcome.problem = fmt::format("{} weight {}", weight->is_nan ? "nan" : "inf", weight->name);
    outcome.problem_order = -1;
    return;
  }
  if (!std::isfinite(loss)) {
    outcome.problem = fmt::format("{} loss", kind_of(loss));
    // After all that this rank sent on the way to it.
    outcome.problem_order = sums.nonfinite_order ? (*sums.nonfinite_order + 1) * TransferWatch::kTransfersPerPlace - 1 : kAtTheEnd;
  } else if (gradient) {
    outcome.problem = fmt::format("{} gradient of {}", gradient->is_nan ? "nan" : "inf", gradient->name);
    outcome.problem_order = kAtTheEnd;
  }
  if (transfers_ == nullptr || !transfers_->first_nonfinite()) return;
  const TransferWatch::Sent& sent = *transfers_->first_nonfinite();
  if (!outcome.problem.empty() && outcome.problem_order < sent.order) return;
  const std::string seen = outcome.problem.empty() ? "" : fmt::format(", then {}", outcome.problem);
  outcome.problem = fmt::format("{} sent by {}{}", sent.is_nan ? "nan" : "inf", sent.transfer, seen);
  outcome.problem_order = sent.order;
}

StepOutcome TrainStep::run(const Batch& batch, const StepSettings& settings, const StepHooks& hooks, PhaseSeconds& seconds) {
  StepOutcome outcome{.valid_labels = batch.valid_labels()};
  Timer timer_of_phase;
  auto note_work = [&, waited_before = waited_s()](Phase phase) mutable {
    worked_s_[static_cast<std::size_t>(phase)] = timer_of_phase.seconds() - (waited_s() - waited_before);
    waited_before = waited_s();
    timer_of_phase.restart();
  };
  PassSums sums;
  {
    const PhaseTimer timer(seconds, Phase::kForwardBackward);
    // Not over dp_ep: there the weights of the last step may still be on their way.
    if (!speaks_for_labels_) outcome.valid_labels = 0;
    sum_over<Index>(groups_.world, std::span(&outcome.valid_labels, 1));
    if (hooks.before_forward) optimizer_->wait_weights();  // whoever looks in may look at weights
    call(hooks.before_forward);
    reduces_early_ = !hooks.after_backward;  // and at gradients before they are summed
    if (!global_counts_LE_.empty()) count_experts_first(batch);
    optimizer_->zero_gradients();
    const auto pieces = static_cast<double>(micro_batches_);
    sums = forward_backward(
        batch, {.lm = ratio(1.0, outcome.valid_labels), .aux = config_.moe.aux_loss_coefficient / pieces, .z = config_.moe.z_loss_coefficient / pieces}, hooks);
    if (hooks.local_loss) sums.lm_loss = hooks.local_loss(sums.lm_loss);
    call(hooks.after_backward);
    note_work(Phase::kForwardBackward);
  }
  {
    const PhaseTimer timer(seconds, Phase::kReduce);
    come_to(hooks, Activity::kCollective);
    find_problem(sums, outcome);
    const PassSums mine = speaks_for_model_ ? sums : PassSums{};
    std::array<double, 5> all = {mine.lm_loss, mine.aux_loss, mine.z_loss, outcome.problem.empty() ? 0.0 : 1.0, settings.wants_to_stop ? 1.0 : 0.0};
    sum_over<double>(groups_.world, all);
    sum_over<Index>(groups_.world, counts_LE_);
    outcome.lm_loss = ratio(all[0], outcome.valid_labels);
    outcome.aux_loss = ratio(all[1], micro_batches_);
    outcome.z_loss = ratio(all[2], micro_batches_);
    outcome.has_local_problem = all[3] > 0;
    outcome.wants_to_stop = all[4] > 0;
    if (outcome.has_local_problem) {
      optimizer_->discard_gradients();
      outcome.update = {.grad_norm = std::nan(""), .is_finite = false};
      return outcome;
    }
    optimizer_->reduce_gradients();
    call(hooks.after_reduce);
    note_work(Phase::kReduce);
  }
  const PhaseTimer timer(seconds, Phase::kUpdate);
  come_to(hooks, Activity::kOptimizer);
  outcome.update = optimizer_->update(settings.lr, settings.may_clip);
  note_work(Phase::kUpdate);
  return outcome;
}

}  // namespace optimus
