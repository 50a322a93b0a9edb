#pragma once
// Parameters, gradients and optimizer states of one rank in flat buckets, each sharded over the ranks that hold copies of it.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "optimus/backend/backend.hpp"
#include "optimus/comm/communicator.hpp"
#include "optimus/comm/mesh.hpp"
#include "optimus/optim/config.hpp"
#include "optimus/tensor/chunk.hpp"
#include "optimus/tensor/param_spec.hpp"

namespace optimus {

/// Groups a rank reduces over, one per replica axis. For one rank all are `self`.
struct ReplicaGroups {
  Communicator* dp = nullptr;        ///< expert parameters
  Communicator* dp_ep = nullptr;     ///< parameters cut over TP
  Communicator* world = nullptr;     ///< for the norm and for agreement
  Communicator* ep = nullptr;        ///< for "so" with ep > 1: the shards over DP are then summed over EP
  Communicator* dp_ep_tp = nullptr;  ///< parameters that every TP rank has whole; used with tp > 1
  Communicator* ep_tp = nullptr;     ///< for "so" with tp > 1, as ep
  Communicator* tied = nullptr;      ///< this rank's counterparts on the first and the last pipeline stage; used where both hold a tied embedding
};

/// What one update did.
struct UpdateResult {
  double grad_norm = 0;         ///< global, before clipping; NaN or Inf if a gradient is
  double clip_coefficient = 1;  ///< multiplied into every gradient
  bool is_finite = true;        ///< false: nothing was changed
};

/// Owns weights (in `precision.weights`), gradients (in `precision.gradients`) and, for its shard, fp32 master and moments.
///
/// A bucket is a flat, padded array of whole parameters with the same replica group. After backward: reduce-scatter of each gradient bucket, norm over
/// all shards (each logical element once), update of the own shard, all-gather of the new weights.
/// With `parallel.overlap` the transfer of one bucket runs while the one before is computed on; the results are the same bytes.
class ShardedOptimizer {
 public:
  struct Options {
    OptimizerConfig optimizer;
    PrecisionConfig precision;
    ParallelConfig parallel;
    Index bucket_elements = Index{1} << 25;  ///< a bucket is closed when it holds this many; one parameter is never cut
  };
  ShardedOptimizer(std::vector<ParamSpec> specs, const Options& options, const Mesh& mesh, Index rank, ReplicaGroups groups, Backend& backend);
  ~ShardedOptimizer();

  /// Local parts in the order of the specs.
  [[nodiscard]] std::span<const View> weights() const;
  [[nodiscard]] std::span<const View> gradients() const;

  /// Sets weights and master from unrounded fp32 values: `fill(spec, box, flat_begin, f32 out)` is called for the ranges this rank owns; others receive them.
  /// Collective: over world. What `fill` throws on one rank is thrown on all.
  using Fill = std::function<void(const ParamSpec& spec, const Box& box, Index flat_begin, View out)>;
  void initialize(const Fill& fill);

  void zero_gradients();
  /// The first parameter whose gradient on this rank, before any reduction, holds a NaN or Inf.
  struct NonFinite {
    std::string name;
    bool is_nan = true;
  };
  [[nodiscard]] std::optional<NonFinite> find_nonfinite_gradient() const;
  /// The same of the weights it computed with.
  [[nodiscard]] std::optional<NonFinite> find_nonfinite_weight() const;
  /// The same of the fp32 values that this rank's part of the weights is made of.
  [[nodiscard]] std::optional<NonFinite> find_nonfinite_master() const;
  /// Sums gradients over the replica groups. After it each rank holds the reduced gradients of its shards.
  void reduce_gradients();
  /// Norm, clipping, update, gathering of weights; once after each reduce_gradients(). `lr`: of this step; `may_clip`: false during the warm-up.
  /// Collective: over world (norm) and the replica groups (weights); the result is the same on all ranks.
  UpdateResult update(double lr, bool may_clip);

  /// Reduced gradients of this rank's shards, named as parameters ("grad.NAME"), for dumps: over all ranks each element once. Between reduce_gradients and zero_gradients.
  [[nodiscard]] std::vector<Chunk> gradient_chunks() const;
  /// Gives every rank the reduced gradients of all its parameters, in gradients(); for dumps. Between reduce_gradients and zero_gradients.
  /// Collective: over the replica groups.
  void gather_gradients();
  /// Everything a checkpoint must hold: "model." (weights, own shard), and "master.", "exp_avg.", "exp_avg_sq." (not for SGD's moments). Writable: loading fills them.
  [[nodiscard]] std::vector<Chunk> state_chunks();
  /// Those of state_chunks() that this rank writes: over all ranks each element once, also where several ranks hold the same states.
  [[nodiscard]] std::vector<Chunk> owned_state_chunks();
  /// The weights alone, as this rank writes them.
  [[nodiscard]] std::vector<Chunk> owned_model_chunks();
  /// "model." chunks whose memory is the fp32 master: for starting from weights alone. Then publish_weights(true).
  [[nodiscard]] std::vector<Chunk> starting_weight_chunks();
  /// After the own shard's weights or master were loaded: gather the weights on every rank. `from_master`: round them from the master copy first.
  void publish_weights(bool from_master);
  [[nodiscard]] Index adam_step() const;
  void set_adam_step(Index step);

  /// Bytes on this rank, by kind.
  struct Bytes {
    Index weights = 0, gradients = 0, master = 0, moments = 0, staging = 0;
  };
  [[nodiscard]] Bytes bytes() const;
  /// The same without allocating anything, for plans.
  [[nodiscard]] static Bytes plan_bytes(const std::vector<ParamSpec>& specs, const Options& options, const Mesh& mesh, Index rank);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace optimus
