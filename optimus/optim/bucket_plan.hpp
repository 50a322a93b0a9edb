#pragma once
// Where each parameter lies in which flat bucket, and how a bucket is cut into shards. Arithmetic only: no memory, no communication.

#include <optional>
#include <string>
#include <vector>

#include "optimus/comm/placement.hpp"

namespace optimus {

/// Shards begin at multiples of this many elements, so that every one is aligned to a cache line in bf16 and in f32 alike; parameters too.
inline constexpr Index kBucketAlignment = 32;

/// One parameter in a bucket.
struct BucketEntry {
  Index spec = 0;    ///< number in the list of specs
  Box box;           ///< part of the parameter that this rank holds
  Index offset = 0;  ///< of its first element in the bucket
  Index count = 0;
};

/// Parameters that the same ranks hold copies of, one after another in a flat array, padded at the end to `shards` equal parts.
struct Bucket {
  Axis replicas = Axis::kDpEp;    ///< group over which gradients are summed
  Axis shard_axis = Axis::kDpEp;  ///< group over which states are divided; meaningless if shards is 1
  bool is_tied = false;           ///< the gradient is summed over the first and the last pipeline stage too
  Index tp_copies = 1;            ///< neighbouring TP ranks that hold the same, with the same gradient
  Index shards = 1;
  Index shard = 0;  ///< the part of this rank
  /// Other ranks that hold the same shard, of the same gradient: those along this axis.
  std::optional<Axis> copy_axis;
  /// Member along copy_axis that owns the shard. With states that are not divided another one for each part of the model, so that their owners spread over nodes.
  Index owner_copy = 0;
  /// Whether this rank speaks for its shard where several ranks hold the same one: norms and checkpoints count each element once.
  bool is_owner = true;
  std::vector<BucketEntry> entries;
  Index elements = 0;         ///< padding included
  std::vector<Index> layers;  ///< ParamSpec::layer of the entries, each once

  [[nodiscard]] Index shard_elements() const { return elements / shards; }
};

/// The common part of an entry and a shard: elements [flat_begin, flat_begin + count) of the entry's box, at `shard_offset` in the shard.
struct ShardRange {
  Index flat_begin = 0, count = 0, shard_offset = 0;
};
/// Of shard `shard` of `bucket`; count is 0 if they do not meet.
[[nodiscard]] ShardRange shard_range(const Bucket& bucket, const BucketEntry& entry, Index shard);
/// Of the own shard.
[[nodiscard]] inline ShardRange shard_range(const Bucket& bucket, const BucketEntry& entry) { return shard_range(bucket, entry, bucket.shard); }

/// Buckets in the order in which backward completes them: the last parameter comes first. The next forward needs them in the opposite order.
///
/// A bucket holds parameters with one replica group and one owner. It is closed when it has reached
/// `bucket_elements`; a parameter is never cut.
///   "epso": states divided over the replica group;   "so": over DP only;   "none": not at all.
/// Ranks:    of one pipeline stage all have the same parameters in the same buckets, in the same order.
[[nodiscard]] std::vector<Bucket> plan_buckets(const std::vector<ParamSpec>& specs, const Mesh& mesh, Index rank, const std::string& sharding,
                                               Index bucket_elements);

}  // namespace optimus
