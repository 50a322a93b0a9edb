#pragma once
// What a ShardedOptimizer is made of. Internal to this folder.

#include <memory>
#include <vector>

#include "optimus/optim/reduction.hpp"
#include "optimus/optim/replicas.hpp"
#include "optimus/optim/sharded_optimizer.hpp"

namespace optimus {

struct ShardedOptimizer::Impl {
  std::vector<ParamSpec> specs;
  Options options;
  Backend& backend;
  Replicas replicas;
  std::vector<BucketStorage> buckets;             ///< in the order in which backward completes them
  std::vector<View> weights, gradients;           ///< in the order of specs
  Reduction reduction;                            ///< of the buckets
  std::vector<std::unique_ptr<Request>> gathers;  ///< of each bucket's weights; null: they are here
  Index adam_step = 0;
  double sum_squares = 0;  ///< of the reduced gradients this rank speaks for
  bool has_reduced = false;

  Impl(std::vector<ParamSpec> s, const Options& o, const Mesh& mesh, Index rank, const ReplicaGroups& groups, Backend& b);

  [[nodiscard]] const ParamSpec& spec_of(const BucketEntry& entry) const { return specs[static_cast<std::size_t>(entry.spec)]; }
  void step_bucket(BucketStorage& b, double lr, double scale);
  void wait_for(std::size_t i);
  [[nodiscard]] std::optional<NonFinite> nonfinite_in(const BucketEntry& entry, ConstView values) const;

  void append_states(const BucketStorage& b, std::vector<Chunk>& chunks) const;
  /// Fills `out`, the f32 elements of shard `shard`.
  void fill_shard(const Bucket& bucket, Index shard, const Fill& fill, View out) const;
  /// Where this rank is the one that reads a bucket: fills all shards and sends them; else receives its own.
  void distribute_master(BucketStorage& b, const Fill& fill) const;
};

}  // namespace optimus
