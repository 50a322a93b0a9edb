#include "optimus/optim/bucket_storage.hpp"

#include <cstring>
#include <utility>

namespace optimus {
namespace {

View allocate_zeros(std::vector<Buffer>& memory, DType dtype, Index elements) {
  Buffer buffer(checked_mul(elements, dtype_bytes(dtype)));
  if (buffer.bytes() > 0) std::memset(buffer.data(), 0, static_cast<std::size_t>(buffer.bytes()));
  const View view(buffer.data(), dtype, {elements});
  memory.push_back(std::move(buffer));
  return view;
}

}  // namespace

BucketStorage::BucketStorage(Bucket b, const BucketFormat& format) : bucket(std::move(b)) {
  const Index shard_elements = bucket.shard_elements(), begin = bucket.shard * shard_elements;
  weights = allocate_zeros(memory_, format.weights, bucket.elements);
  gradients = allocate_zeros(memory_, format.gradients, bucket.elements);
  weight_shard = weights.rows(begin, begin + shard_elements);
  gradient_shard = gradients.rows(begin, begin + shard_elements);
  master_shard = format.weights == DType::kF32 ? weight_shard : allocate_zeros(memory_, DType::kF32, shard_elements);
  if (format.has_moments) {
    exp_avg_shard = allocate_zeros(memory_, DType::kF32, shard_elements);
    exp_avg_sq_shard = allocate_zeros(memory_, DType::kF32, shard_elements);
  }
}

void BucketStorage::append_chunks(const std::vector<ParamSpec>& specs, const std::string& prefix, View shard, std::vector<Chunk>& chunks) const {
  for (const BucketEntry& entry : bucket.entries) {
    const ShardRange range = shard_range(bucket, entry);
    if (range.count == 0) continue;
    const ParamSpec& spec = specs[static_cast<std::size_t>(entry.spec)];
    chunks.push_back({.name = prefix + spec.name,
                      .global_shape = spec.shape,
                      .box = entry.box,
                      .flat_begin = range.flat_begin,
                      .data = shard.rows(range.shard_offset, range.shard_offset + range.count)});
  }
}

}  // namespace optimus
