#pragma once
// The chunks of the model that stand on one rank, run as a stage of the pipeline. Without pipeline parallelism: one stage with all layers.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "optimus/model/transformer.hpp"
#include "optimus/pipeline/executor.hpp"
#include "optimus/tensor/arena.hpp"
#include "optimus/train/activity.hpp"
#include "optimus/train/rank_groups.hpp"
#include "optimus/train/run_config.hpp"

namespace optimus {

/// Sums over the micro-batches of one pass on one rank: of its layers, and of its labels on the last stage.
struct PassSums {
  double lm_loss = 0, aux_loss = 0, z_loss = 0;
  Index valid_labels = 0;
  std::optional<Index> nonfinite_order;  ///< Place::order of the first forward whose loss was NaN or Inf
};

/// Micro-batch m of a pass.
using MicroBatchAt = std::function<MicroBatch(Index m)>;

/// One training pass.
struct TrainingPass {
  MicroBatchAt micro_batch;
  LossScale scale;
  GlobalExpertCounts global_counts;
  std::function<void(const Place&)> at;  ///< told of each forward and backward before it begins
  std::function<void(ConstView)> sent;   ///< told of activations and gradients that the next stage will receive
};

/// What a stage consists of; the same for a plan.
struct StagePlan {
  std::vector<LayerRange> chunks;
  std::vector<TransformerOptions> options;  ///< of each chunk
  pipeline::Schedule schedule;
  pipeline::MessageFormats formats;
  Index stage = 0;

  StagePlan(const RunConfig& config, const Mesh& mesh, Index rank);
  /// Activations and temporaries of all chunks.
  [[nodiscard]] ActivationPlan activations() const;
  /// Of transfers between stages.
  [[nodiscard]] Index buffer_bytes(bool overlap) const;
};

/// Collective: every pass over the whole model (pp, tp and ep groups), with as many micro-batches on every rank.
class StageModel {
 public:
  /// `groups` and `backend` must outlive it.
  StageModel(const RunConfig& config, const Mesh& mesh, const RankGroups& groups, Backend& backend);
  ~StageModel();

  /// In the order of parameter_specs(model, chunks).
  [[nodiscard]] const std::vector<ParamSpec>& specs() const { return specs_; }
  void bind(std::span<const View> weights, std::span<const View> gradients);
  /// Told the layer; `after_backward` only in the pass's last micro-batch of each chunk, when the gradients are complete.
  void set_hooks(TransformerHooks hooks) { hooks_ = std::move(hooks); }

  /// Forward and backward of the rank's micro-batches of a step, adding to the gradients.
  PassSums train(const TrainingPass& pass);
  /// Forward of `count` micro-batches. `sink`: told the logits on the last stage.
  using Sink = std::function<void(Index micro_batch, Index first_row, ConstView logits_TV)>;
  PassSums forward(const MicroBatchAt& micro_batch, Index count, const Sink& sink = {});

  /// Choices of each expert in the last pass, [layers of the whole model, E], 0 for layers elsewhere.
  [[nodiscard]] std::span<const std::int64_t> expert_counts() const { return counts_LE_; }

 private:
  class Training;
  class Forward;
  void add(const pipeline::Action& action, const MicroBatchResult& result);
  [[nodiscard]] Place place_of(const pipeline::Action& action, bool is_backward) const;
  void begin_pass();
  /// Lets transfers go on: those between stages, and whatever the owner of the hooks has under way.
  void poll(pipeline::Executor& executor) const;
  [[nodiscard]] StageRows rows_of(const pipeline::StageMessage& message, Index chunk) const;
  pipeline::Executor& forward_executor(Index count);

  StagePlan plan_;
  const RankGroups& groups_;
  bool overlap_;
  std::vector<ParamSpec> specs_;
  Arena temporaries_;
  std::vector<Transformer> chunks_;
  std::unique_ptr<pipeline::Executor> training_;
  std::map<Index, std::unique_ptr<pipeline::Executor>> forward_;  ///< by number of micro-batches
  TransformerHooks hooks_;
  PassSums sums_;
  std::vector<std::int64_t> counts_LE_;
};

}  // namespace optimus
