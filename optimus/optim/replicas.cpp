#include "optimus/optim/replicas.hpp"

#include <fmt/format.h>

#include "optimus/base/check.hpp"
#include "optimus/comm/axis_group.hpp"

namespace optimus {
namespace {

constexpr int kShareTag = 1;

/// The first of each `copies` neighbours sends to the others.
void share_with_neighbours(Communicator& group, Index copies, View shard) {
  const Index place = group.rank() % copies, first = group.rank() - place;
  if (place != 0) return group.receive(shard, first, kShareTag);
  for (Index i = 1; i < copies; ++i) group.send(shard, first + i, kShareTag);
}

Communicator& given(Communicator* group, std::string_view name) {
  if (group == nullptr) throw InternalError(fmt::format("[optim] this layout needs the group {}", name));
  return *group;
}

}  // namespace

Communicator& Replicas::group(Axis axis) const {
  switch (axis) {
    case Axis::kDp: return given(groups_.dp, axis_name(axis));
    case Axis::kDpEp: return given(groups_.dp_ep, axis_name(axis));
    case Axis::kDpEpTp: return given(groups_.dp_ep_tp, axis_name(axis));
    case Axis::kEp: return given(groups_.ep, axis_name(axis));
    case Axis::kEpTp: return given(groups_.ep_tp, axis_name(axis));
    default: throw InternalError(fmt::format("[optim] no parameter is copied along {}", axis_name(axis)));
  }
}

std::unique_ptr<Request> Replicas::start_reduce(BucketStorage& b) const {
  if (b.bucket.shards > 1) return group(b.bucket.shard_axis).start_reduce_scatter(b.gradients, b.gradient_shard);
  Communicator& replicas = group(b.bucket.replicas);
  return replicas.size() > 1 ? replicas.start_all_reduce(b.gradients, Reduce::kSum) : nullptr;
}

void Replicas::reduce_rest(BucketStorage& b) const {
  if (!b.bucket.copy_axis || b.bucket.shards == 1) return;
  Communicator& rest = group(*b.bucket.copy_axis);
  if (rest.size() > 1) rest.all_reduce(b.gradient_shard, Reduce::kSum);
}

void Replicas::add_tied(BucketStorage& b) const {
  if (b.bucket.is_tied) given(groups_.tied, "tied").all_reduce(b.gradient_shard, Reduce::kSum);
}

std::unique_ptr<Request> Replicas::start_gather(BucketStorage& b) const {
  return b.bucket.shards > 1 ? group(b.bucket.shard_axis).start_all_gather(b.weight_shard, b.weights) : nullptr;
}

void Replicas::share(const Bucket& bucket, View shard) const {
  // After the first two, all that will hand on something in the last has it; what others received on the way is overwritten there.
  if (bucket.is_tied) given(groups_.tied, "tied").broadcast(shard, 0);
  if (bucket.tp_copies > 1) share_with_neighbours(group(Axis::kEpTp), bucket.tp_copies, shard);
  if (!bucket.copy_axis) return;
  Communicator& copies = group(*bucket.copy_axis);
  if (copies.size() > 1) copies.broadcast(shard, bucket.owner_copy);
}

}  // namespace optimus
