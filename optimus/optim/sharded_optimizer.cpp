#include "optimus/optim/sharded_optimizer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "optimus/base/check.hpp"
#include "optimus/comm/axis_group.hpp"
#include "optimus/ops/misc.hpp"
#include "optimus/ops/update.hpp"
#include "optimus/optim/bucket_storage.hpp"

namespace optimus {
namespace {

/// Below the root of every second moment that fp32 holds: with eps 0 a weight whose gradients were all 0 stays, instead of becoming 0/0.
constexpr double kSmallestEps = 1e-23;

BucketFormat bucket_format(const ShardedOptimizer::Options& options) {
  return {.weights = parse_precision(options.precision.weights),
          .gradients = parse_precision(options.precision.gradients),
          .has_moments = options.optimizer.name == "adamw"};
}

ShardedOptimizer::Bytes bucket_bytes(const Bucket& bucket, const BucketFormat& format) {
  const Index shard_bytes = checked_mul(bucket.shard_elements(), dtype_bytes(DType::kF32));
  return {.weights = checked_mul(bucket.elements, dtype_bytes(format.weights)),
          .gradients = checked_mul(bucket.elements, dtype_bytes(format.gradients)),
          .master = format.weights == DType::kF32 ? 0 : shard_bytes,
          .moments = format.has_moments ? 2 * shard_bytes : 0};
}

ShardedOptimizer::Bytes add(const ShardedOptimizer::Bytes& a, const ShardedOptimizer::Bytes& b) {
  return {.weights = a.weights + b.weights,
          .gradients = a.gradients + b.gradients,
          .master = a.master + b.master,
          .moments = a.moments + b.moments,
          .staging = a.staging + b.staging};
}

}  // namespace

struct ShardedOptimizer::Impl {
  std::vector<ParamSpec> specs;
  Options options;
  ReplicaGroups groups;
  Backend& backend;
  std::vector<BucketStorage> buckets;    ///< in the order in which backward completes them
  std::vector<View> weights, gradients;  ///< in the order of specs
  Index adam_step = 0;
  double sum_squares = 0;  ///< of the reduced gradients this rank speaks for
  bool has_reduced = false;

  Impl(std::vector<ParamSpec> s, const Options& o, const Mesh& mesh, Index rank, ReplicaGroups g, Backend& b)
      : specs(std::move(s)), options(o), groups(g), backend(b), weights(specs.size()), gradients(specs.size()) {
    const BucketFormat format = bucket_format(options);
    for (Bucket& bucket : plan_buckets(specs, mesh, rank, options.parallel.optimizer_sharding, options.bucket_elements))
      buckets.emplace_back(std::move(bucket), format);
    for (const BucketStorage& storage : buckets) {
      for (const BucketEntry& entry : storage.bucket.entries) {
        weights[static_cast<std::size_t>(entry.spec)] = storage.weight_of(entry);
        gradients[static_cast<std::size_t>(entry.spec)] = storage.gradient_of(entry);
      }
    }
  }

  Communicator& group(Axis axis) const {
    switch (axis) {
      case Axis::kDp: return *groups.dp;
      case Axis::kDpEp: return *groups.dp_ep;
      case Axis::kDpEpTp: return *groups.dp_ep_tp;
      default: throw InternalError(fmt::format("[optim] no parameter is copied along {}", axis_name(axis)));
    }
  }

  /// Starts the sum of a bucket's gradients over the ranks that hold copies; nothing where there is nobody to wait for.
  std::unique_ptr<Request> start_reduce(BucketStorage& b) const {
    if (b.bucket.shards > 1) return group(b.bucket.shard_axis).start_reduce_scatter(b.gradients, b.gradient_shard);
    Communicator& replicas = group(b.bucket.replicas);
    return replicas.size() > 1 ? replicas.start_all_reduce(b.gradients, Reduce::kSum) : nullptr;
  }

  /// What start_reduce leaves over: states divided over DP alone, gradients that differ between EP ranks too.
  void finish_reduce(BucketStorage& b) {
    const bool is_divided_over_part = options.parallel.optimizer_sharding == "so" && b.bucket.replicas != Axis::kDp;
    Communicator* rest = b.bucket.replicas == Axis::kDpEpTp ? groups.ep_tp : groups.ep;
    if (is_divided_over_part && b.bucket.shards > 1 && rest != nullptr && rest->size() > 1) rest->all_reduce(b.gradient_shard, Reduce::kSum);
    if (b.bucket.is_tied) groups.tied->all_reduce(b.gradient_shard, Reduce::kSum);
    if (b.bucket.is_owner) sum_squares += ops::sum_squares(backend, b.gradient_shard);
  }

  std::unique_ptr<Request> start_gather(BucketStorage& b) const {
    return b.bucket.shards > 1 ? group(b.bucket.shard_axis).start_all_gather(b.weight_shard, b.weights) : nullptr;
  }

  /// start(b) and finish(b) for every bucket, with one transfer under way while the bucket before is worked on.
  template <class Start, class Finish> void for_each_bucket(Start start, Finish finish) {
    std::unique_ptr<Request> current, next;
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      current = i > 0 && options.parallel.overlap ? std::move(next) : start(buckets[i]);
      if (options.parallel.overlap && i + 1 < buckets.size()) next = start(buckets[i + 1]);
      if (current) current->wait();
      finish(buckets[i]);
    }
  }

  void step_bucket(BucketStorage& b, double lr, double scale) {
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

  std::optional<NonFinite> nonfinite_in(const BucketEntry& entry, ConstView values) const {
    const double sum = ops::sum_squares(backend, values);
    if (std::isfinite(sum)) return std::nullopt;
    return NonFinite{.name = specs[static_cast<std::size_t>(entry.spec)].name, .is_nan = std::isnan(sum)};
  }

  /// Whole buckets first: looking into single parameters is for the one that has something to find.
  template <class All, class Part> std::optional<NonFinite> find_nonfinite(All all, Part part) const {
    for (const BucketStorage& b : buckets) {
      if (std::isfinite(ops::sum_squares(backend, b.*all))) continue;
      for (const BucketEntry& entry : b.bucket.entries) {
        if (auto found = nonfinite_in(entry, (b.*part)(entry))) return found;
      }
    }
    return std::nullopt;
  }

  void append_states(const BucketStorage& b, std::vector<Chunk>& chunks) const {
    b.append_chunks(specs, "model.", b.weight_shard, chunks);
    b.append_chunks(specs, "master.", b.master_shard, chunks);
    if (!b.exp_avg_shard.exists()) return;
    b.append_chunks(specs, "exp_avg.", b.exp_avg_shard, chunks);
    b.append_chunks(specs, "exp_avg_sq.", b.exp_avg_sq_shard, chunks);
  }

  void fill_own(BucketStorage& b, const Fill& fill) const {
    // With undivided states one member of the replica group makes the values and the others receive them.
    if (b.bucket.shards == 1 && group(b.bucket.replicas).rank() != 0) return;
    for (const BucketEntry& entry : b.bucket.entries) {
      const ShardRange range = shard_range(b.bucket, entry);
      if (range.count > 0)
        fill(specs[static_cast<std::size_t>(entry.spec)], entry.box, range.flat_begin,
             b.master_shard.rows(range.shard_offset, range.shard_offset + range.count));
    }
  }
};

ShardedOptimizer::ShardedOptimizer(std::vector<ParamSpec> specs, const Options& options, const Mesh& mesh, Index rank, ReplicaGroups groups, Backend& backend)
    : impl_(std::make_unique<Impl>(std::move(specs), options, mesh, rank, groups, backend)) {}
ShardedOptimizer::~ShardedOptimizer() = default;

std::span<const View> ShardedOptimizer::weights() const { return impl_->weights; }
std::span<const View> ShardedOptimizer::gradients() const { return impl_->gradients; }
Index ShardedOptimizer::adam_step() const { return impl_->adam_step; }
void ShardedOptimizer::set_adam_step(Index step) { impl_->adam_step = step; }

void ShardedOptimizer::initialize(const Fill& fill) {
  agree(*impl_->groups.world, [&] {
    for (BucketStorage& b : impl_->buckets) impl_->fill_own(b, fill);
  });
  for (BucketStorage& b : impl_->buckets) {
    Communicator& replicas = impl_->group(b.bucket.replicas);
    if (b.bucket.shards == 1 && replicas.size() > 1) replicas.broadcast(b.master_shard, 0);
  }
  publish_weights(true);
}

void ShardedOptimizer::zero_gradients() {
  for (BucketStorage& b : impl_->buckets) ops::fill_zero(impl_->backend, b.gradients);
}

std::optional<ShardedOptimizer::NonFinite> ShardedOptimizer::find_nonfinite_gradient() const {
  return impl_->find_nonfinite(&BucketStorage::gradients, &BucketStorage::gradient_of);
}

std::optional<ShardedOptimizer::NonFinite> ShardedOptimizer::find_nonfinite_weight() const {
  return impl_->find_nonfinite(&BucketStorage::weights, &BucketStorage::weight_of);
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
  impl_->sum_squares = 0;
  impl_->for_each_bucket([this](BucketStorage& b) { return impl_->start_reduce(b); }, [this](BucketStorage& b) { impl_->finish_reduce(b); });
  impl_->has_reduced = true;
}

UpdateResult ShardedOptimizer::update(double lr, bool may_clip) {
  OPTIMUS_CHECK(impl_->has_reduced, "update() must follow reduce_gradients()");
  impl_->has_reduced = false;
  double sum_squares = impl_->sum_squares;
  if (impl_->groups.world->size() > 1) impl_->groups.world->all_reduce(View(reinterpret_cast<std::byte*>(&sum_squares), DType::kF64, {1}), Reduce::kSum);

  UpdateResult result{.grad_norm = std::sqrt(sum_squares)};
  // The sum is the same on all ranks, so all of them decide alike, and before any weight has changed.
  result.is_finite = std::isfinite(result.grad_norm);
  if (!result.is_finite) return result;
  const double clip_norm = impl_->options.optimizer.clip_norm;
  if (may_clip && clip_norm > 0 && result.grad_norm > clip_norm) result.clip_coefficient = clip_norm / result.grad_norm;

  ++impl_->adam_step;
  std::unique_ptr<Request> gather;
  for (BucketStorage& b : impl_->buckets) {
    impl_->step_bucket(b, lr, result.clip_coefficient);
    if (gather) gather->wait();
    gather = impl_->start_gather(b);
    if (gather && !impl_->options.parallel.overlap) std::exchange(gather, nullptr)->wait();
  }
  if (gather) gather->wait();
  return result;
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
    if (b.bucket.shards > 1) impl_->group(b.bucket.shard_axis).all_gather(b.gradient_shard, b.gradients);
  }
}

std::vector<Chunk> ShardedOptimizer::state_chunks() {
  std::vector<Chunk> chunks;
  for (const BucketStorage& b : impl_->buckets) impl_->append_states(b, chunks);
  return chunks;
}

std::vector<Chunk> ShardedOptimizer::owned_state_chunks() {
  std::vector<Chunk> chunks;
  for (const BucketStorage& b : impl_->buckets) {
    if (b.bucket.is_owner) impl_->append_states(b, chunks);
  }
  return chunks;
}

std::vector<Chunk> ShardedOptimizer::owned_model_chunks() {
  std::vector<Chunk> chunks;
  for (const BucketStorage& b : impl_->buckets) {
    if (b.bucket.is_owner) b.append_chunks(impl_->specs, "model.", b.weight_shard, chunks);
  }
  return chunks;
}

std::vector<Chunk> ShardedOptimizer::starting_weight_chunks() {
  std::vector<Chunk> chunks;
  for (const BucketStorage& b : impl_->buckets) b.append_chunks(impl_->specs, "model.", b.master_shard, chunks);
  return chunks;
}

void ShardedOptimizer::publish_weights(bool from_master) {
  for (BucketStorage& b : impl_->buckets) {
    if (from_master && b.master_shard.data() != b.weight_shard.data()) ops::convert(impl_->backend, b.master_shard, b.weight_shard);
    if (const auto gather = impl_->start_gather(b)) gather->wait();
  }
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
  for (const Bucket& bucket : plan_buckets(specs, mesh, rank, options.parallel.optimizer_sharding, options.bucket_elements))
    sum = add(sum, bucket_bytes(bucket, bucket_format(options)));
  return sum;
}

}  // namespace optimus
