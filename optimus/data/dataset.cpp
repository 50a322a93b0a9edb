#include "optimus/data/dataset.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "optimus/base/check.hpp"
#include "optimus/base/counted.hpp"
#include "optimus/base/hash.hpp"
#include "optimus/data/data_files.hpp"
#include "optimus/data/dataset_file.hpp"
#include "optimus/data/npy.hpp"

namespace optimus {

struct Dataset::Impl {
  std::filesystem::path folder;
  DatasetInfo info;
  std::vector<MappedFile> files;
  std::vector<Index> data_offset;   // by shard: bytes before the first sample
  std::vector<Index> first_sample;  // by shard, and one past the last
};

namespace {

MappedFile map_shard(const fs::path& path) {
  if (!fs::is_regular_file(path)) throw DataError(fmt::format("[dataset] {}: the shard is missing", path.string()));
  return map_data_file(path);
}

/// Checks size and header against dataset.json; returns the offset of the data.
Index check_shard(const MappedFile& file, const fs::path& path, const ShardInfo& shard, const DatasetInfo& info) {
  const auto bytes = static_cast<Index>(file.bytes().size());
  if (bytes != shard.bytes)
    throw DataError(
        fmt::format("[dataset] {}: has {}, {} says {}: cut off or of another dataset", path.string(), counted(bytes, "byte"), kDatasetFileName, shard.bytes));
  const NpyHeader header = parse_npy_header(file.bytes(), path);
  const std::string dtype = fmt::format("<u{}", info.token_bytes);
  const std::vector<Index> shape{shard.num_samples, info.sequence_length + 1};
  if (header.dtype != dtype || header.shape != shape || header.is_fortran) {
    throw DataError(fmt::format("[dataset] {}: holds {} [{}], {} says {} [{}]", path.string(), header.dtype, fmt::join(header.shape, ", "), kDatasetFileName,
                                dtype, fmt::join(shape, ", ")));
  }
  if (bytes - header.data_offset != checked_mul(checked_mul(shape[0], shape[1]), info.token_bytes)) {
    throw DataError(fmt::format("[dataset] {}: its header and its size disagree", path.string()));
  }
  return header.data_offset;
}

template <class T>
std::int32_t widen(const std::byte* from, std::span<std::int32_t> ids) {
  std::uint32_t largest = 0;  // one comparison a sample instead of one an id
  for (std::size_t i = 0; i < ids.size(); ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    ids[i] = static_cast<std::int32_t>(value);
    largest = std::max(largest, static_cast<std::uint32_t>(value));
  }
  return static_cast<std::int32_t>(std::min<std::uint32_t>(largest, INT32_MAX));
}

}  // namespace

Dataset::Dataset(const std::filesystem::path& folder) : impl_(std::make_unique<Impl>()) {
  impl_->folder = folder;
  impl_->info = read_dataset_file(folder);
  impl_->first_sample.push_back(0);
  for (const ShardInfo& shard : impl_->info.shards) {
    const fs::path path = folder / shard.file;
    impl_->files.push_back(map_shard(path));
    impl_->data_offset.push_back(check_shard(impl_->files.back(), path, shard, impl_->info));
    impl_->first_sample.push_back(impl_->first_sample.back() + shard.num_samples);
  }
}

Dataset::~Dataset() = default;
Dataset::Dataset(Dataset&&) noexcept = default;
Dataset& Dataset::operator=(Dataset&&) noexcept = default;

const DatasetInfo& Dataset::info() const { return impl_->info; }
const std::filesystem::path& Dataset::folder() const { return impl_->folder; }

void Dataset::read_sample(Index index, std::span<std::int32_t> ids) const {
  const DatasetInfo& info = impl_->info;
  OPTIMUS_CHECK(index >= 0 && index < info.num_samples, "sample outside the dataset");
  OPTIMUS_CHECK(static_cast<Index>(ids.size()) == info.sequence_length + 1, "a sample has sequence length + 1 ids");
  const auto after = std::upper_bound(impl_->first_sample.begin(), impl_->first_sample.end(), index);
  const auto shard = static_cast<std::size_t>(after - impl_->first_sample.begin() - 1);
  const Index row = index - impl_->first_sample[shard];
  const std::byte* from = impl_->files[shard].bytes().data() + impl_->data_offset[shard] + row * (info.sequence_length + 1) * info.token_bytes;
  const std::int32_t largest = info.token_bytes == 2 ? widen<std::uint16_t>(from, ids) : widen<std::uint32_t>(from, ids);
  if (largest < info.vocab_size) return;
  const auto bad = std::find_if(ids.begin(), ids.end(), [&](std::int32_t id) { return id < 0 || id >= info.vocab_size; });
  throw DataError(fmt::format("[dataset] {}: id {} at place {} of row {} is not below the vocabulary's {}; optimus dataset verify checks the whole folder",
                              (impl_->folder / info.shards[shard].file).string(), static_cast<std::uint32_t>(*bad), bad - ids.begin(), row, info.vocab_size));
}

void Dataset::verify() const {
  std::vector<std::string> damaged;
  for (std::size_t i = 0; i < impl_->files.size(); ++i) {
    const ShardInfo& shard = impl_->info.shards[i];
    if (hex64(xxh64(impl_->files[i].bytes())) != shard.checksum) damaged.push_back(shard.file);
  }
  if (!damaged.empty()) throw DataError(fmt::format("[dataset] {}: the checksum is wrong of {}", impl_->folder.string(), fmt::join(damaged, ", ")));
}

void mark_valid_labels(std::span<const std::int32_t> ids, Index end_of_document, std::span<std::uint8_t> is_valid_S) {
  OPTIMUS_CHECK(ids.size() == is_valid_S.size() + 1, "a sample has one id more than labels");
  for (std::size_t s = 0; s < is_valid_S.size(); ++s) is_valid_S[s] = ids[s] != end_of_document ? 1 : 0;
}

}  // namespace optimus
