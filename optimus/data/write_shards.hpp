#pragma once
// Last step of `prepare`: the samples in shuffled order, in files of even size.

#include <filesystem>
#include <optional>
#include <vector>

#include "optimus/data/corpus_samples.hpp"
#include "optimus/data/dataset.hpp"

namespace optimus {

struct ShardOptions {
  Index sequence_length = 0;
  Index samples_per_shard = 0;
  TokenType token_type = TokenType::kU16;
  std::uint64_t seed = 0;
  Index num_workers = 1;
  bool is_silent = false;
};

/// Writes the shards `todo` (indices) into `folder`/shards and a record of each into `work`. Place q of the dataset holds corpus sample
/// permutation(q), whoever writes it.
/// Memory:   about 1 MiB a worker.
/// Errors:   FileError, for a full disk for example. Shards that were finished before stay.
void write_shards(const CorpusSamples& samples, const std::vector<Index>& todo, const std::filesystem::path& folder, const std::filesystem::path& work,
                  const ShardOptions& options);

/// What is known of a finished shard; nothing if it is not finished.
[[nodiscard]] std::optional<ShardInfo> read_shard_record(const std::filesystem::path& folder, const std::filesystem::path& work, Index shard);
/// Forgets all finished shards: the ids they were cut from have changed.
void remove_shard_records(const std::filesystem::path& work);

}  // namespace optimus
