#include "optimus/data/write_shards.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "optimus/base/file.hpp"
#include "optimus/base/hash.hpp"
#include "optimus/data/dataset_file.hpp"
#include "optimus/data/npy.hpp"
#include "optimus/data/ordered_pipeline.hpp"
#include "optimus/data/permutation.hpp"
#include "optimus/data/progress.hpp"

namespace optimus {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::string_view kRecordPrefix = "shard-";

fs::path record_path(const fs::path& work, Index shard) { return work / fmt::format("{}{:05}.json", kRecordPrefix, shard); }

/// An AtomicFile with a buffer and a checksum.
class ShardFile {
 public:
  explicit ShardFile(const fs::path& path) : file_(path) {}
  void write(std::span<const std::byte> bytes) {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    constexpr std::size_t kBufferBytes = 1 << 20;
    if (buffer_.size() >= kBufferBytes) flush();
  }
  /// Puts the file in place; returns its checksum.
  std::string commit() {
    flush();
    file_.commit();
    return hex64(hash_.digest());
  }
  [[nodiscard]] Index size() const { return file_.size(); }

 private:
  void flush() {
    file_.write(buffer_);
    hash_.update(buffer_);
    buffer_.clear();
  }
  AtomicFile file_;
  Xxh64 hash_;
  std::vector<std::byte> buffer_;
};

std::span<const std::byte> narrow_ids(std::span<const std::int32_t> ids, TokenType type, std::vector<std::byte>& out) {
  if (type == TokenType::kU32) return std::as_bytes(ids);
  out.resize(ids.size() * 2);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto id = static_cast<std::uint16_t>(ids[i]);
    std::memcpy(out.data() + 2 * i, &id, 2);
  }
  return out;
}

void write_shard(const CorpusSamples& samples, const Permutation& permutation, Index shard, const fs::path& folder, const fs::path& work,
                 const ShardOptions& options) {
  const Index begin = shard * options.samples_per_shard, end = std::min(samples.size(), begin + options.samples_per_shard);
  const Index width = options.sequence_length + 1;
  ShardFile file(folder / shard_name(shard));
  const std::string header = make_npy_header(fmt::format("<u{}", token_type_bytes(options.token_type)), {end - begin, width});
  file.write(std::as_bytes(std::span(header)));
  std::vector<std::int32_t> ids(static_cast<std::size_t>(width));
  std::vector<std::byte> narrowed;
  for (Index place = begin; place < end; ++place) {
    samples.read(permutation(place), ids);
    file.write(narrow_ids(ids, options.token_type, narrowed));
  }
  const std::string checksum = file.commit();
  write_file_atomically(record_path(work, shard), Json{{"samples", end - begin}, {"bytes", file.size()}, {"xxh64", checksum}}.dump() + "\n");
}

}  // namespace

void write_shards(const CorpusSamples& samples, const std::vector<Index>& todo, const fs::path& folder, const fs::path& work, const ShardOptions& options) {
  const Permutation permutation(samples.size(), options.seed, "shuffle");
  Progress progress("[prepare] shard", static_cast<Index>(todo.size()), "shards", 1, options.is_silent);
  struct Task {
    Index shard = 0;
  };
  struct Nothing {};
  std::size_t next = 0;
  OrderedPipeline<Task, Nothing> pipeline(std::min(options.num_workers, std::max<Index>(static_cast<Index>(todo.size()), 1)));
  pipeline.run(
      [&](Task& task) {
        if (next == todo.size()) return false;
        task.shard = todo[next++];
        return true;
      },
      [&](const Task& task, const auto&) { write_shard(samples, permutation, task.shard, folder, work, options); }, [](const Task&, Nothing) {},
      [&](const Task&) { progress.add(1); });
}

std::optional<ShardInfo> read_shard_record(const fs::path& folder, const fs::path& work, Index shard) {
  ShardInfo info{.file = shard_name(shard)};
  const fs::path path = record_path(work, shard), file = folder / info.file;
  if (!fs::exists(path) || !fs::exists(file)) return std::nullopt;
  const Json record = Json::parse(read_file(path), nullptr, false);
  if (!record.is_object()) return std::nullopt;
  info.num_samples = record.value("samples", Index{0});
  info.bytes = record.value("bytes", Index{0});
  info.checksum = record.value("xxh64", "");
  if (static_cast<Index>(fs::file_size(file)) != info.bytes) return std::nullopt;
  return info;
}

void remove_shard_records(const fs::path& work) {
  std::vector<fs::path> records;
  for (const auto& entry : fs::directory_iterator(work)) {
    if (entry.path().filename().string().starts_with(kRecordPrefix)) records.push_back(entry.path());
  }
  for (const fs::path& record : records) fs::remove(record);
}

}  // namespace optimus
