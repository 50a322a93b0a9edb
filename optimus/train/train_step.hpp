#pragma once
// One optimizer step: forward and backward over the rank's micro-batches, reduction, update. No files, no schedule, no loop.

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "optimus/base/timer.hpp"
#include "optimus/comm/communicator.hpp"
#include "optimus/comm/mesh.hpp"
#include "optimus/comm/watched/watched.hpp"
#include "optimus/optim/sharded_optimizer.hpp"
#include "optimus/train/activity.hpp"
#include "optimus/train/batch.hpp"
#include "optimus/train/rank_groups.hpp"
#include "optimus/train/run_config.hpp"
#include "optimus/train/stage_model.hpp"
#include "optimus/train/step_record.hpp"

namespace optimus {

/// What the loop decides for a step.
struct StepSettings {
  double lr = 0;
  bool may_clip = true;        ///< false during the warm-up
  bool wants_to_stop = false;  ///< of this rank; StepOutcome says whether any rank does
};

/// What came of it; the same on all ranks but for `problem`.
struct StepOutcome {
  double lm_loss = 0, aux_loss = 0, z_loss = 0;  ///< of the global batch, as defined for the whole of it
  Index valid_labels = 0;
  UpdateResult update;  ///< is_finite false: no weight was changed
  /// This rank's own NaN or Inf in words, empty if it has none: "nan loss", "nan gradient of NAME", "nan weight NAME", "nan sent by …".
  std::string problem;
  Index problem_order = 0;         ///< of several ranks with a problem it began at the one with the lowest
  bool has_local_problem = false;  ///< on any rank, found before gradients were reduced
  bool wants_to_stop = false;
};

/// Places where drills and dumps look in.
struct StepHooks {
  std::function<void()> before_forward, after_backward, after_reduce;
  std::function<double(double)> local_loss;  ///< may replace the sum of losses of this rank
  std::function<void(const Place&)> at;      ///< told where the step has come to, before it goes on there
};

/// The model with its optimizer on one rank.
///
/// Collective: run() over the world, with batches that together are the global batch.
class TrainStep {
 public:
  /// All that it is given must outlive it, but for `mesh`. `transfers`: of `groups`, if they are watched: what they sent tells at which rank a NaN began.
  TrainStep(const RunConfig& config, const Mesh& mesh, RankGroups& groups, Backend& backend, TransferWatch* transfers = nullptr);
  ~TrainStep();

  [[nodiscard]] ShardedOptimizer& optimizer() { return *optimizer_; }
  [[nodiscard]] StageModel& model() { return *model_; }
  /// Parameters on this rank.
  [[nodiscard]] const std::vector<ParamSpec>& specs() const { return model_->specs(); }
  [[nodiscard]] StepOutcome run(const Batch& batch, const StepSettings& settings, const StepHooks& hooks, PhaseSeconds& seconds);
  /// Seconds of a phase of the last step without those in which it waited for other ranks. Of forward and backward, reduce and update.
  [[nodiscard]] double worked_s(Phase phase) const { return worked_s_[static_cast<std::size_t>(phase)]; }
  /// Rows that chose each expert in the last step, over the whole global batch: [layers * experts]; empty for a dense model.
  [[nodiscard]] const std::vector<Index>& expert_counts() const { return counts_LE_; }

 private:
  [[nodiscard]] PassSums forward_backward(const Batch& batch, const LossScale& scale, const StepHooks& hooks);
  void count_experts_first(const Batch& batch);
  void add_expert_counts();
  [[nodiscard]] double waited_s() const { return transfers_ != nullptr ? transfers_->waited_s() : 0; }
  void find_problem(const PassSums& sums, StepOutcome& outcome) const;

  const RunConfig& config_;
  RankGroups& groups_;
  TransferWatch* transfers_;
  Index micro_batches_;     ///< of the global batch
  bool speaks_for_model_;   ///< whether this rank's sums count: TP peers have the same ones
  bool speaks_for_labels_;  ///< the same for its rows: PP peers have the same ones too
  bool reduces_early_ = true;
  std::unique_ptr<StageModel> model_;
  std::unique_ptr<ShardedOptimizer> optimizer_;
  PhaseSeconds worked_s_{};
  std::vector<Index> counts_LE_, global_counts_LE_;
};

}  // namespace optimus
