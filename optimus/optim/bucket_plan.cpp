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

/// Ranks that hold the same shard as a rank of `bucket`, if there are several.
std::optional<Axis> copy_axis(const Bucket& bucket, const Mesh& mesh, const std::string& sharding) {
  std::optional<Axis> axis;
  if (sharding == "none") axis = bucket.replicas;
  if (sharding == "so" && bucket.replicas == Axis::kDpEp) axis = Axis::kEp;
  if (sharding == "so" && bucket.replicas == Axis::kDpEpTp) axis = Axis::kEpTp;
  return axis && mesh.group_size(*axis) > 1 ? axis : std::nullopt;
}

/// Part m of the model belongs to copy m mod copies. States divided over DP are spread already, and stay with the first.
/// Ranks:    the same member for all that hold the same part, on both stages of a tied parameter and on TP ranks that share heads.
Index owner_copy(const Bucket& bucket, const Mesh& mesh, Index rank, const std::string& sharding) {
  if (!bucket.copy_axis || sharding != "none") return 0;
  Coordinates part = mesh.coordinates(rank);
  part.tp -= part.tp % bucket.tp_copies;
  if (bucket.is_tied) part.pp = 0;
  return mesh.group_index(mesh.rank_of(part), *bucket.copy_axis) % mesh.group_size(*bucket.copy_axis);
}

/// A bucket without parameters, for those of `kind`.
Bucket open_bucket(const Kind& kind, const Mesh& mesh, Index rank, const std::string& sharding) {
  Bucket bucket{.replicas = kind.replicas,
                .shard_axis = sharding == "epso" ? kind.replicas : Axis::kDp,
                .is_tied = kind.is_tied,
                .tp_copies = kind.tp_copies,
                .copy_axis = {},
                .entries = {},
                .layers = {}};
  if (sharding != "none") {
    bucket.shards = mesh.group_size(bucket.shard_axis);
    bucket.shard = mesh.member_index(rank, bucket.shard_axis);
  }
  bucket.copy_axis = copy_axis(bucket, mesh, sharding);
  bucket.owner_copy = owner_copy(bucket, mesh, rank, sharding);
  const Coordinates at = mesh.coordinates(rank);
  bucket.is_owner =
      (!bucket.copy_axis || mesh.member_index(rank, *bucket.copy_axis) == bucket.owner_copy) && at.tp % kind.tp_copies == 0 && (!kind.is_tied || at.pp == 0);
  return bucket;
}

/// Elements that the TP rank with most of them has of a parameter.
Index largest_count(const ParamSpec& spec, const Mesh& mesh, Index rank) {
  ModelSplit split = model_split(mesh, rank);
  split.tp_rank = 0;
  return local_box(spec, split).shape.count();
}

void close_bucket(Bucket& bucket) { bucket.elements = round_up(bucket.elements, bucket.shards * kBucketAlignment); }

}  // namespace

ShardRange shard_range(const Bucket& bucket, const BucketEntry& entry, Index shard) {
  const Index shard_begin = shard * bucket.shard_elements();
  const Index begin = std::max(entry.offset, shard_begin), end = std::min(entry.offset + entry.count, shard_begin + bucket.shard_elements());
  if (end <= begin) return {};
  return {.flat_begin = begin - entry.offset, .count = end - begin, .shard_offset = begin - shard_begin};
}

std::vector<Bucket> plan_buckets(const std::vector<ParamSpec>& specs, const Mesh& mesh, Index rank, const std::string& sharding, Index bucket_elements) {
  struct Open {
    Kind kind;
    Index bucket = 0, elements = 0;
  };
  std::vector<Bucket> buckets;
  std::vector<Open> open;  // the bucket being filled for each kind
  for (Index i = static_cast<Index>(specs.size()) - 1; i >= 0; --i) {
    const ParamSpec& spec = specs[static_cast<std::size_t>(i)];
    const Kind kind = kind_of(spec, mesh);
    auto current = std::find_if(open.begin(), open.end(), [&](const Open& entry) { return entry.kind == kind; });
    if (current == open.end()) {
      current = open.insert(open.end(), {.kind = kind, .bucket = static_cast<Index>(buckets.size())});
      buckets.push_back(open_bucket(kind, mesh, rank, sharding));
    }
    Bucket& bucket = buckets[static_cast<std::size_t>(current->bucket)];
    BucketEntry entry{.spec = i, .box = local_box(spec, mesh, rank), .offset = bucket.elements};
    entry.count = entry.box.shape.count();
    bucket.elements = checked_add(bucket.elements, round_up(entry.count, kBucketAlignment));
    bucket.entries.push_back(entry);
    if (std::find(bucket.layers.begin(), bucket.layers.end(), spec.layer) == bucket.layers.end()) bucket.layers.push_back(spec.layer);
    // Where TP cuts unevenly, too, all ranks close the bucket here.
    current->elements = checked_add(current->elements, round_up(largest_count(spec, mesh, rank), kBucketAlignment));
    if (current->elements >= bucket_elements) open.erase(current);
  }
  for (Bucket& bucket : buckets) close_bucket(bucket);
  // A bucket is complete with its first parameter, its last entry: one that small parameters of all layers fill holds up no other.
  std::stable_sort(buckets.begin(), buckets.end(), [](const Bucket& a, const Bucket& b) { return a.entries.back().spec > b.entries.back().spec; });
  return buckets;
}

}  // namespace optimus
