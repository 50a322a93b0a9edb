#pragma once
// The memory of one bucket on one rank: all of its weights and gradients, and the optimizer states of the own shard. Internal to this folder.

#include <string>
#include <vector>

#include "optimus/optim/bucket_plan.hpp"
#include "optimus/tensor/arena.hpp"

namespace optimus {

/// What is stored in which type.
struct BucketFormat {
  DType weights = DType::kF32, gradients = DType::kF32;
  bool has_moments = true;  ///< AdamW's
};

/// Flat views; every one starts at a cache line. Padding is zero from the start and stays so: kernels may run over it.
struct BucketStorage {
  BucketStorage(Bucket bucket, const BucketFormat& format);

  Bucket bucket;
  View weights, gradients;                             ///< [elements]
  View weight_shard, gradient_shard;                   ///< the own part of those
  View master_shard, exp_avg_shard, exp_avg_sq_shard;  ///< f32; master is the weight shard itself if weights are f32

  [[nodiscard]] View weight_of(const BucketEntry& entry) const { return part(weights, entry); }
  [[nodiscard]] View gradient_of(const BucketEntry& entry) const { return part(gradients, entry); }
  /// Appends a chunk for every parameter that meets the shard.
  void append_chunks(const std::vector<ParamSpec>& specs, const std::string& prefix, View shard, std::vector<Chunk>& chunks) const;

 private:
  [[nodiscard]] static View part(View all, const BucketEntry& entry) { return all.rows(entry.offset, entry.offset + entry.count).reshaped(entry.box.shape); }
  std::vector<Buffer> memory_;
};

}  // namespace optimus
