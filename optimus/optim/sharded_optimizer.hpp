#pragma once
// Parameters, gradients and optimizer states of one rank in flat buckets, each sharded over the ranks that hold copies of it.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "optimus/backend/backend.hpp"
#include "optimus/comm/mesh.hpp"
#include "optimus/optim/config.hpp"
#include "optimus/optim/replica_groups.hpp"
#include "optimus/tensor/chunk.hpp"
#include "optimus/tensor/param_spec.hpp"

namespace optimus {

/// Sums of buckets that are under way at the same time; each may hold staging memory of its transport.
inline constexpr Index kReductionsUnderWay = 2;

/// What one update did.
struct UpdateResult {
  double grad_norm = 0;         ///< global, before clipping; NaN or Inf if a gradient is
  double clip_coefficient = 1;  ///< multiplied into every gradient
  bool is_finite = true;        ///< false: nothing was changed
};

/// Owns weights (in `precision.weights`), gradients (in `precision.gradients`) and, for its shard, fp32 master (of fp32 weights, these themselves) and moments.
///
/// A bucket is a flat, padded array of whole parameters with the same replica group. After backward: reduce-scatter of each gradient bucket, norm over
/// all shards (each logical element once), update of the own shard, all-gather of the new weights.
///
/// With `parallel.overlap` the trainer may tell gradients_complete(), so that buckets are summed while backward still runs, and update() returns while
/// weights are still on their way: whoever reads weights() calls wait_weights() first. Members that read them do so themselves. The results are the
/// same bytes either way.
class ShardedOptimizer {
 public:
  struct Options {
    OptimizerConfig optimizer;
    PrecisionConfig precision;
    ParallelConfig parallel;
  };
  /// `specs`: those of this rank's stage, in forward order. What `groups` names and `backend` must outlive it.
  /// Weights mean something after initialize(), initialize_from_reader() or a load.
  ShardedOptimizer(std::vector<ParamSpec> specs, const Options& options, const Mesh& mesh, Index rank, ReplicaGroups groups, Backend& backend);
  ~ShardedOptimizer();

  /// Local parts in the order of the specs.
  [[nodiscard]] std::span<const View> weights() const;
  [[nodiscard]] std::span<const View> gradients() const;

  /// Fills `out` (f32) with elements [flat_begin, flat_begin + out.count()) of `box` of a parameter, unrounded.
  using Fill = std::function<void(const ParamSpec& spec, const Box& box, Index flat_begin, View out)>;
  /// Sets weights and masters. `fill` is called on every rank for the ranges of its shards, and gives the same everywhere.
  /// Collective: over world. What `fill` throws on one rank is thrown on all.
  void initialize(const Fill& fill);
  /// The same from values that have to be read: `fill` is called on one rank of a replica group, for all of its ranges, and the others receive them. So
  /// each value is read once in all; with data parallelism alone, by the first rank.
  /// Collective: over world. What `fill` throws on one rank is thrown on all.
  void initialize_from_reader(const Fill& fill);

  /// A step begins.  Errors: InternalError if gradients_complete() began a step that was neither reduced nor discarded.
  void zero_gradients();
  /// The gradients of `layer` (as in ParamSpec::layer) are complete: called once a step for each layer, in its last micro-batch, or never. A bucket whose
  /// layers are all complete is looked through for NaN and Inf and then summed over its replica group, which overwrites a part of it: nobody touches
  /// these gradients any more. Buckets start in one fixed order, so a complete one may have to wait for others. Never blocks. Without overlap: nothing.
  void gradients_complete(Index layer);
  /// Lets transfers go on, and the next ones start. Never blocks; nearly free where nothing is under way.
  void poll();
  struct NonFinite {
    std::string name;
    bool is_nan = true;
  };
  /// The first parameter whose gradient on this rank, before any reduction, holds a NaN or Inf. From here to reduce_gradients() gradients stay as they are.
  [[nodiscard]] std::optional<NonFinite> find_nonfinite_gradient() const;
  /// The same of the weights it computed with.
  [[nodiscard]] std::optional<NonFinite> find_nonfinite_weight() const;
  /// The same of the fp32 values that this rank's part of the weights is made of.
  [[nodiscard]] std::optional<NonFinite> find_nonfinite_master() const;
  /// Sums the gradients that are not yet summed over their replica groups, and waits for all. After it each rank holds the reduced gradients of its shards.
  void reduce_gradients();
  /// Instead of reduce_gradients(): the step is given up, on all ranks, however much of it each has told to be complete. Gradients are worth nothing after it.
  /// Collective: as reduce_gradients().
  void discard_gradients();
  /// Norm, clipping, update, gathering of weights; once after each reduce_gradients(). `lr`: of this step; `may_clip`: false during the warm-up.
  /// With overlap weights are gathered in the order of forward, and may be under way at the end.
  /// Collective: over world (norm) and the replica groups (weights); the result is the same on all ranks.
  UpdateResult update(double lr, bool may_clip);
  /// Waits until the weights of `layer` are here: before its first use after update(). Of a layer without parameters on this rank: nothing.
  void wait_weights(Index layer);
  /// Waits for all weights.
  void wait_weights();

  /// Reduced gradients of this rank's shards, named as parameters ("grad.NAME"), for dumps: over all ranks each element once. Between reduce_gradients and zero_gradients.
  [[nodiscard]] std::vector<Chunk> gradient_chunks() const;
  /// Gives every rank the reduced gradients of all its parameters, in gradients(); for dumps. Between reduce_gradients and zero_gradients.
  /// Collective: over the replica groups.
  void gather_gradients();
  /// All that this rank has of what a checkpoint must hold: "model." (weights, own shard), and "master.", "exp_avg.", "exp_avg_sq." (not for SGD's moments). Writable.
  [[nodiscard]] std::vector<Chunk> state_chunks();
  /// Those of state_chunks() that this rank writes, and reads: over all ranks each element once, also where several ranks hold the same states.
  [[nodiscard]] std::vector<Chunk> owned_state_chunks();
  /// The weights alone, as this rank writes them.
  [[nodiscard]] std::vector<Chunk> owned_model_chunks();
  /// After the owned_state_chunks() were loaded: gives all states to the other ranks that hold the same ones. So each is read once, by one rank.
  /// Collective: over world.
  void share_states();
  /// After the own shard's weights or master were loaded: gather the weights on every rank. `from_master`: round them from the master copy first.
  /// Collective: over world.
  void publish_weights(bool from_master);
  /// Updates made so far: AdamW's bias correction depends on it, so it goes into checkpoints.
  [[nodiscard]] Index adam_step() const;
  void set_adam_step(Index step);

  /// Bytes on this rank, by kind.
  struct Bytes {
    Index weights = 0, gradients = 0, master = 0, moments = 0;
  };
  [[nodiscard]] Bytes bytes() const;
  /// The same without allocating anything, for plans.
  [[nodiscard]] static Bytes plan_bytes(const std::vector<ParamSpec>& specs, const Options& options, const Mesh& mesh, Index rank);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace optimus
