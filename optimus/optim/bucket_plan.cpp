#include "optimus/optim/bucket_plan.hpp"

#include <algorithm>

namespace optimus {
namespace {

/// A bucket without parameters, for those like `spec`.
Bucket open_bucket(const ParamSpec& spec, const Mesh& mesh, Index rank, const std::string& sharding) {
  Bucket bucket;
  bucket.replicas = replica_axis(spec);
  bucket.shard_axis = sharding == "epso" ? bucket.replicas : Axis::kDp;
  if (sharding != "none") {
    bucket.shards = mesh.group_size(bucket.shard_axis);
    bucket.shard = mesh.member_index(rank, bucket.shard_axis);
  }
  const Coordinates at = mesh.coordinates(rank);
  const bool is_copied_over_dp = sharding == "none";
  const bool is_copied_over_ep = bucket.replicas == Axis::kDpEp && sharding != "epso";
  bucket.is_owner = (!is_copied_over_dp || at.dp == 0) && (!is_copied_over_ep || at.ep == 0) && (spec.tp_dim || at.tp == 0);
  return bucket;
}

void close_bucket(Bucket& bucket) { bucket.elements = round_up(bucket.elements, bucket.shards * kBucketAlignment); }

}  // namespace

ShardRange shard_range(const Bucket& bucket, const BucketEntry& entry) {
  const Index begin = std::max(entry.offset, bucket.shard_begin());
  const Index end = std::min(entry.offset + entry.count, bucket.shard_begin() + bucket.shard_elements());
  if (end <= begin) return {};
  return {.flat_begin = begin - entry.offset, .count = end - begin, .shard_offset = begin - bucket.shard_begin()};
}

std::vector<Bucket> plan_buckets(const std::vector<ParamSpec>& specs, const Mesh& mesh, Index rank, const std::string& sharding, Index bucket_elements) {
  std::vector<Bucket> buckets;
  // The bucket being filled for each kind: [is expert][is split over TP].
  Index open[2][2] = {{-1, -1}, {-1, -1}};
  for (Index i = static_cast<Index>(specs.size()) - 1; i >= 0; --i) {
    const ParamSpec& spec = specs[static_cast<std::size_t>(i)];
    Index& current = open[spec.is_expert][mesh.tp() > 1 && spec.tp_dim];
    if (current < 0) {
      current = static_cast<Index>(buckets.size());
      buckets.push_back(open_bucket(spec, mesh, rank, sharding));
    }
    Bucket& bucket = buckets[static_cast<std::size_t>(current)];
    BucketEntry entry{.spec = i, .box = local_box(spec, mesh, rank), .offset = bucket.elements};
    entry.count = entry.box.shape.count();
    bucket.elements = checked_add(bucket.elements, round_up(entry.count, kBucketAlignment));
    bucket.entries.push_back(entry);
    if (bucket.elements >= bucket_elements) current = -1;
  }
  for (Bucket& bucket : buckets) close_bucket(bucket);
  return buckets;
}

}  // namespace optimus
