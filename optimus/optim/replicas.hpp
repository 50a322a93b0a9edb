#pragma once
// The transfers of one bucket between the ranks that hold copies of it. Internal to this folder.

#include <memory>

#include "optimus/optim/bucket_storage.hpp"
#include "optimus/optim/replica_groups.hpp"

namespace optimus {

/// Who else has what this rank has of a bucket, and how sums, weights and states pass between them.
///
/// Collective: every function over the groups of its bucket; their members call them for the same buckets in the same order.
class Replicas {
 public:
  explicit Replicas(const ReplicaGroups& groups) : groups_(groups) {}

  [[nodiscard]] Communicator& world() const { return *groups_.world; }
  [[nodiscard]] Communicator& group(Axis axis) const;
  /// Whether this rank's gradient is the whole gradient: nobody else adds to it.
  [[nodiscard]] bool is_alone(const Bucket& bucket) const { return !bucket.is_tied && group(bucket.replicas).size() == 1; }

  /// Starts the sum of a bucket's gradients over the ranks that hold copies; null where there is nobody to wait for.
  [[nodiscard]] std::unique_ptr<Request> start_reduce(BucketStorage& b) const;
  /// What start_reduce leaves over: states divided over DP alone, gradients that differ between EP and TP ranks too.
  void reduce_rest(BucketStorage& b) const;
  /// Adds the gradients of the first and the last pipeline stage.
  void add_tied(BucketStorage& b) const;
  /// Starts to hand the own shard of the weights to all and to receive theirs; null where each rank has all.
  [[nodiscard]] std::unique_ptr<Request> start_gather(BucketStorage& b) const;

  /// Gives `shard`, a rank's part of some state of the bucket, from its owner to all ranks that hold the same part.
  void share(const Bucket& bucket, View shard) const;

 private:
  ReplicaGroups groups_;
};

}  // namespace optimus
