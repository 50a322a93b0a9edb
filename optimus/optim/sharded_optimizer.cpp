#include "optimus/optim/sharded_optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "optimus/base/check.hpp"
#include "optimus/ops/misc.hpp"
#include "optimus/ops/update.hpp"
#include "optimus/optim/sharded_optimizer_impl.hpp"
#include "optimus/tensor/nonfinite.hpp"

namespace optimus {
namespace {

/// Below the root of every second moment that fp32 holds: with eps 0 a weight whose gradients were all 0 stays, instead of becoming 0/0.
constexpr double kSmallestEps = 1e-23;

BucketFormat bucket_format(const ShardedOptimizer::Options& options) {
  return {.weights = parse_precision(options.precision.weights),
          .gradients = parse_precision(options.precision.gradients),
          .has_moments = options.optimizer.name == "adamw"};
}

std::vector<BucketStorage> make_buckets(const std::vector<ParamSpec>& specs, const ShardedOptimizer::Options& options, const Mesh& mesh, Index rank) {
  std::vector<BucketStorage> buckets;
  for (Bucket& bucket : plan_buckets(specs, mesh, rank, options.parallel.optimizer_sharding, options.parallel.bucket_elements))
    buckets.emplace_back(std::move(bucket), bucket_format(options));
  return buckets;
}

ShardedOptimizer::Bytes bucket_bytes(const Bucket& bucket, const BucketFormat& format) {
  const Index shard_bytes = checked_mul(bucket.shard_elements(), dtype_bytes(DType::kF32));
  return {.weights = checked_mul(bucket.elements, dtype_bytes(format.weights)),
          .gradients = checked_mul(bucket.elements, dtype_bytes(format.gradients)),
          .master = format.weights == DType::kF32 ? 0 : shard_bytes,
          .moments = format.has_moments ? 2 * shard_bytes : 0};
}

ShardedOptimizer::Bytes add(const ShardedOptimizer::Bytes& a, const ShardedOptimizer::Bytes& b) {
  return {.weights = a.weights + b.weights, .gradients = a.gradients + b.gradients, .master = a.master + b.master, .moments = a.moments + b.moments};
}

}  // namespace

ShardedOptimizer::Impl::Impl(std::vector<ParamSpec> s, const Options& o, const Mesh& mesh, Index rank, const ReplicaGroups& groups, Backend& b)
    : specs(std::move(s)),
      options(o),
      backend(b),
      replicas(groups),
      buckets(make_buckets(specs, o, mesh, rank)),
      weights(specs.size()),
      gradients(specs.size()),
      reduction(buckets, specs, replicas, b, o.parallel.overlap),
      gathers(buckets.size()) {
  for (const BucketStorage& storage : buckets) {
    for (const BucketEntry& entry : storage.bucket.entries) {
      weights[static_cast<std::size_t>(entry.spec)] = storage.weight_of(entry);
      gradients[static_cast<std::size_t>(entry.spec)] = storage.gradient_of(entry);
    }
  }
}

void ShardedOptimizer::Impl::step_bucket(BucketStorage& b, double lr, double scale) {
  const OptimizerConfig& o = options.optimizer;
  if (o.name == "sgd") return ops::sgd_update(backend, lr, o.weight_decay, scale, b.gradient_shard, b.master_shard, b.weight_shard);
  const AdamWStep step{.lr = lr,
                       .beta1 = o.betas[0],
                       .beta2 = o.betas[1],
                       .eps = std::max(o.eps, kSmallestEps),
                       .weight_decay = o.weight_decay,
                       .step = adam_step,
                       .gradient_scale = scale};
  ops::adamw_update(backend, step, b.gradient_shard, b.master_shard, b.exp_avg_shard, b.exp_avg_sq_shard, b.weight_shard);
}

void ShardedOptimizer::Impl::wait_for(std::size_t i) {
  if (const auto gather = std::exchange(gathers[i], nullptr)) gather->wait();
}

std::optional<ShardedOptimizer::NonFinite> ShardedOptimizer::Impl::nonfinite_in(const BucketEntry& entry, ConstView values) const {
  const double sum = ops::sum_squares(backend, values);
  if (std::isfinite(sum)) return std::nullopt;
  return NonFinite{.name = spec_of(entry).name, .is_nan = std::isnan(sum)};
}

ShardedOptimizer::ShardedOptimizer(std::vector<ParamSpec> specs, const Options& options, const Mesh& mesh, Index rank, ReplicaGroups groups, Backend& backend)
    : impl_(std::make_unique<Impl>(std::move(specs), options, mesh, rank, groups, backend)) {}
ShardedOptimizer::~ShardedOptimizer() = default;

std::span<const View> ShardedOptimizer::weights() const { return impl_->weights; }
std::span<const View> ShardedOptimizer::gradients() const { return impl_->gradients; }
Index ShardedOptimizer::adam_step() const { return impl_->adam_step; }
void ShardedOptimizer::set_adam_step(Index step) { impl_->adam_step = step; }

void ShardedOptimizer::zero_gradients() {
  impl_->reduction.restart();
  impl_->has_reduced = false;
  for (BucketStorage& b : impl_->buckets) ops::fill_zero(impl_->backend, b.gradients);
}

void ShardedOptimizer::gradients_complete(Index layer) { impl_->reduction.complete(layer); }

void ShardedOptimizer::poll() {
  impl_->reduction.advance();
  impl_->replicas.world().poll();
}

std::optional<ShardedOptimizer::NonFinite> ShardedOptimizer::find_nonfinite_gradient() const { return impl_->reduction.find_nonfinite(); }

std::optional<ShardedOptimizer::NonFinite> ShardedOptimizer::find_nonfinite_weight() const {
  for (std::size_t i = 0; i < impl_->buckets.size(); ++i) {
    impl_->wait_for(i);
    const BucketStorage& b = impl_->buckets[i];
    // The whole bucket first: looking into single parameters is for the one that has something to find.
    if (find_nonfinite(b.weights) == NonFiniteKind::kNone) continue;
    for (const BucketEntry& entry : b.bucket.entries) {
      if (auto found = impl_->nonfinite_in(entry, b.weight_of(entry))) return found;
    }
  }
  return std::nullopt;
}

std::optional<ShardedOptimizer::NonFinite> ShardedOptimizer::find_nonfinite_master() const {
  for (const BucketStorage& b : impl_->buckets) {
    for (const BucketEntry& entry : b.bucket.entries) {
      const ShardRange range = shard_range(b.bucket, entry);
      if (range.count == 0) continue;
      if (auto found = impl_->nonfinite_in(entry, b.master_shard.rows(range.shard_offset, range.shard_offset + range.count))) return found;
    }
  }
  return std::nullopt;
}

void ShardedOptimizer::reduce_gradients() {
  impl_->sum_squares = impl_->reduction.finish();
  impl_->has_reduced = true;
}

void ShardedOptimizer::discard_gradients() {
  impl_->reduction.drop();
  impl_->has_reduced = false;
}

UpdateResult ShardedOptimizer::update(double lr, bool may_clip) {
  OPTIMUS_CHECK(impl_->has_reduced, "update() must follow reduce_gradients()");
  impl_->has_reduced = false;
  wait_weights();
  Communicator& world = impl_->replicas.world();
  double sum_squares = impl_->sum_squares;
  if (world.size() > 1) world.all_reduce(View(reinterpret_cast<std::byte*>(&sum_squares), DType::kF64, {1}), Reduce::kSum);

  UpdateResult result{.grad_norm = std::sqrt(sum_squares)};
  // The sum is the same on all ranks, so all of them decide alike, and before any weight has changed.
  result.is_finite = std::isfinite(result.grad_norm);
  if (!result.is_finite) return result;
  const double clip_norm = impl_->options.optimizer.clip_norm;
  if (may_clip && clip_norm > 0 && result.grad_norm > clip_norm) result.clip_coefficient = clip_norm / result.grad_norm;

  ++impl_->adam_step;
  // What forward reads first comes first.
  for (std::size_t i = impl_->buckets.size(); i-- > 0;) {
    impl_->step_bucket(impl_->buckets[i], lr, result.clip_coefficient);
    impl_->gathers[i] = impl_->replicas.start_gather(impl_->buckets[i]);
    if (impl_->options.parallel.overlap) world.poll();
    else impl_->wait_for(i);
  }
  return result;
}

void ShardedOptimizer::wait_weights(Index layer) {
  for (std::size_t i = impl_->buckets.size(); i-- > 0;) {
    const std::vector<Index>& layers = impl_->buckets[i].bucket.layers;
    if (impl_->gathers[i] && std::find(layers.begin(), layers.end(), layer) != layers.end()) impl_->wait_for(i);
  }
}

void ShardedOptimizer::wait_weights() {
  for (std::size_t i = impl_->buckets.size(); i-- > 0;) impl_->wait_for(i);
}

ShardedOptimizer::Bytes ShardedOptimizer::bytes() const {
  Bytes sum;
  for (const BucketStorage& b : impl_->buckets) {
    const bool has_own_master = b.master_shard.data() != b.weight_shard.data();
    sum = add(sum, {.weights = b.weights.bytes(), .gradients = b.gradients.bytes(), .master = has_own_master ? b.master_shard.bytes() : 0});
    if (b.exp_avg_shard.exists()) sum.moments += b.exp_avg_shard.bytes() + b.exp_avg_sq_shard.bytes();
  }
  return sum;
}

ShardedOptimizer::Bytes ShardedOptimizer::plan_bytes(const std::vector<ParamSpec>& specs, const Options& options, const Mesh& mesh, Index rank) {
  Bytes sum;
  for (const Bucket& bucket : plan_buckets(specs, mesh, rank, options.parallel.optimizer_sharding, options.parallel.bucket_elements))
    sum = add(sum, bucket_bytes(bucket, bucket_format(options)));
  return sum;
}

}  // namespace optimus
