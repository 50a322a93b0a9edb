// Where the states of a ShardedOptimizer come from, and go to.
#include <algorithm>
#include <cstring>
#include <exception>

#include "optimus/ops/misc.hpp"
#include "optimus/optim/sharded_optimizer_impl.hpp"

namespace optimus {
namespace {

constexpr int kDistributeTag = 2;

/// Calls `fill` until it has thrown; what it threw is kept for when no rank waits for another.
class CarefulFill {
 public:
  explicit CarefulFill(const ShardedOptimizer::Fill& fill) : fill_(fill) {}
  void operator()(const ParamSpec& spec, const Box& box, Index flat_begin, View out) {
    if (error_) return;
    try {
      fill_(spec, box, flat_begin, out);
    } catch (...) {
      error_ = std::current_exception();
    }
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  const ShardedOptimizer::Fill& fill_;
  std::exception_ptr error_;
};

}  // namespace

void ShardedOptimizer::Impl::append_states(const BucketStorage& b, std::vector<Chunk>& chunks) const {
  b.append_chunks(specs, "model.", b.weight_shard, chunks);
  b.append_chunks(specs, "master.", b.master_shard, chunks);
  if (!b.exp_avg_shard.exists()) return;
  b.append_chunks(specs, "exp_avg.", b.exp_avg_shard, chunks);
  b.append_chunks(specs, "exp_avg_sq.", b.exp_avg_sq_shard, chunks);
}

void ShardedOptimizer::Impl::fill_shard(const Bucket& bucket, Index shard, const Fill& fill, View out) const {
  for (const BucketEntry& entry : bucket.entries) {
    const ShardRange range = shard_range(bucket, entry, shard);
    if (range.count > 0) fill(spec_of(entry), entry.box, range.flat_begin, out.rows(range.shard_offset, range.shard_offset + range.count));
  }
}

void ShardedOptimizer::Impl::distribute_master(BucketStorage& b, const Fill& fill) const {
  const Bucket& bucket = b.bucket;
  if (!bucket.is_owner) return;
  if (bucket.shard != 0) return replicas.group(bucket.shard_axis).receive(b.master_shard, 0, kDistributeTag);
  fill_shard(bucket, 0, fill, b.master_shard);
  if (bucket.shards == 1) return;
  Buffer memory(b.master_shard.bytes());
  const View part(memory.data(), DType::kF32, {b.master_shard.count()});
  for (Index shard = 1; shard < bucket.shards; ++shard) {
    std::memset(part.data(), 0, static_cast<std::size_t>(part.bytes()));  // padding is zero
    fill_shard(bucket, shard, fill, part);
    replicas.group(bucket.shard_axis).send(part, shard, kDistributeTag);
  }
}

void ShardedOptimizer::initialize(const Fill& fill) {
  wait_weights();
  agree(impl_->replicas.world(), [&] {
    for (BucketStorage& b : impl_->buckets) impl_->fill_shard(b.bucket, b.bucket.shard, fill, b.master_shard);
  });
  publish_weights(true);
}

void ShardedOptimizer::initialize_from_reader(const Fill& fill) {
  wait_weights();
  CarefulFill careful(fill);
  for (BucketStorage& b : impl_->buckets) {
    impl_->distribute_master(b, [&](const ParamSpec& spec, const Box& box, Index flat_begin, View out) { careful(spec, box, flat_begin, out); });
    impl_->replicas.share(b.bucket, b.master_shard);
  }
  agree(impl_->replicas.world(), [&] { careful.rethrow(); });
  publish_weights(true);
}

std::vector<Chunk> ShardedOptimizer::gradient_chunks() const {
  std::vector<Chunk> chunks;
  for (const BucketStorage& b : impl_->buckets) {
    if (b.bucket.is_owner) b.append_chunks(impl_->specs, "grad.", b.gradient_shard, chunks);
  }
  return chunks;
}

void ShardedOptimizer::gather_gradients() {
  for (BucketStorage& b : impl_->buckets) {
    if (b.bucket.shards > 1) impl_->replicas.group(b.bucket.shard_axis).all_gather(b.gradient_shard, b.gradients);
  }
}

std::vector<Chunk> ShardedOptimizer::state_chunks() {
  wait_weights();
  std::vector<Chunk> chunks;
  for (const BucketStorage& b : impl_->buckets) impl_->append_states(b, chunks);
  return chunks;
}

std::vector<Chunk> ShardedOptimizer::owned_state_chunks() {
  wait_weights();
  std::vector<Chunk> chunks;
  for (const BucketStorage& b : impl_->buckets) {
    if (b.bucket.is_owner) impl_->append_states(b, chunks);
  }
  return chunks;
}

std::vector<Chunk> ShardedOptimizer::owned_model_chunks() {
  wait_weights();
  std::vector<Chunk> chunks;
  for (const BucketStorage& b : impl_->buckets) {
    if (b.bucket.is_owner) b.append_chunks(impl_->specs, "model.", b.weight_shard, chunks);
  }
  return chunks;
}

void ShardedOptimizer::share_states() {
  wait_weights();
  for (const BucketStorage& b : impl_->buckets) {
    impl_->replicas.share(b.bucket, b.master_shard);
    if (b.weight_shard.data() != b.master_shard.data()) impl_->replicas.share(b.bucket, b.weight_shard);
    if (!b.exp_avg_shard.exists()) continue;
    impl_->replicas.share(b.bucket, b.exp_avg_shard);
    impl_->replicas.share(b.bucket, b.exp_avg_sq_shard);
  }
}

void ShardedOptimizer::publish_weights(bool from_master) {
  wait_weights();
  for (BucketStorage& b : impl_->buckets) {
    if (from_master && b.master_shard.data() != b.weight_shard.data()) ops::convert(impl_->backend, b.master_shard, b.weight_shard);
    if (const auto gather = impl_->replicas.start_gather(b)) gather->wait();
  }
}

}  // namespace optimus
