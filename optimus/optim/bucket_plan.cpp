#include "optimus/optim/bucket_plan.hpp"

#include <algorithm>

namespace optimus {
namespace {

/// What parameters of one bucket have in common.
struct Kind {
  Axis replicas = Axis::kDpEp;
  Index tp_copies = 1;
  bool is_tied = false;
  friend bool operator==(const Kind&, const Kind&) = default;
};

Kind kind_of(const ParamSpec& spec, const Mesh& mesh) {
  Kind kind{.replicas = replica_axis(spec), .tp_copies = tp_copies(spec, mesh.tp()), .is_tied = spec.is_tied};
  if (mesh.tp() == 1 && kind.replicas == Axis::kDpEpTp) kind.replicas = Axis::kDpEp;  // the same ranks
  return kind;
}

/// A bucket without parameters, for those of `kind`.
Bucket open_bucket(const Kind& kind, const Mesh& mesh, Index rank, const std::string& sharding) {
  Bucket bucket{.replicas = kind.replicas, .shard_axis = sharding == "epso" ? kind.replicas : Axis::kDp, .is_tied = kind.is_tied};
  if (sharding != "none") {
    bucket.shards = mesh.group_size(bucket.shard_axis);
    bucket.shard = mesh.member_index(rank, bucket.shard_axis);
  }
  const Coordinates at = mesh.coordinates(rank);
  const bool is_copied_over_dp = sharding == "none";
  const bool is_copied_over_ep = bucket.replicas != Axis::kDp && sharding != "epso";
  const bool is_copied_over_tp = bucket.replicas == Axis::kDpEpTp && sharding != "epso";
  bucket.is_owner = (!is_copied_over_dp || at.dp == 0) && (!is_copied_over_ep || at.ep == 0) && (!is_copied_over_tp || at.tp == 0) &&
                    at.tp % kind.tp_copies == 0 && (!kind.is_tied || at.pp == 0);
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
  std::vector<std::pair<Kind, Index>> open;  // the bucket being filled for each kind
  for (Index i = static_cast<Index>(specs.size()) - 1; i >= 0; --i) {
    const ParamSpec& spec = specs[static_cast<std::size_t>(i)];
    const Kind kind = kind_of(spec, mesh);
    auto current = std::find_if(open.begin(), open.end(), [&](const auto& entry) { return entry.first == kind; });
    if (current == open.end()) {
      current = open.insert(open.end(), {kind, static_cast<Index>(buckets.size())});
      buckets.push_back(open_bucket(kind, mesh, rank, sharding));
    }
    Bucket& bucket = buckets[static_cast<std::size_t>(current->second)];
    BucketEntry entry{.spec = i, .box = local_box(spec, mesh, rank), .offset = bucket.elements};
    entry.count = entry.box.shape.count();
    bucket.elements = checked_add(bucket.elements, round_up(entry.count, kBucketAlignment));
    bucket.entries.push_back(entry);
    if (bucket.elements >= bucket_elements) open.erase(current);
  }
  for (Bucket& bucket : buckets) close_bucket(bucket);
  return buckets;
}

}  // namespace optimus
