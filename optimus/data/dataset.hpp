#pragma once
// A prepared folder, read: dataset.json and its memory-mapped shards.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "optimus/base/index.hpp"

namespace optimus {

/// A file of samples: an array [num_samples, S+1] in .npy.
struct ShardInfo {
  std::string file;  ///< relative to the folder
  Index num_samples = 0;
  Index bytes = 0;       ///< of the whole file
  std::string checksum;  ///< xxh64 of the whole file, 16 hexadecimal digits
};

/// What dataset.json says.
struct DatasetInfo {
  std::string tokenizer;  ///< "bytes", the name of the copied tokenizer file, or "none"
  std::string tokenizer_checksum;
  Index vocab_size = 0;
  Index token_bytes = 2;  ///< 2 (uint16) or 4 (uint32)
  std::string token_type = "uint16";
  Index sequence_length = 0;   ///< S; a sample has S + 1 ids
  Index end_of_document = -1;  ///< id, or -1 if there is none
  std::uint64_t seed = 0;      ///< of the stored order
  Index num_samples = 0, num_tokens = 0, num_documents = 0;
  Index num_empty_documents = 0;                 ///< left out
  Index num_dropped_tokens = 0;                  ///< at the ends of input files, where no whole sample was left
  std::map<std::string, std::string> made_from;  ///< inputs and options, to tell another call on the same folder
  std::vector<ShardInfo> shards;
};

/// A prepared folder. Cheap to open whatever its size: shards are mapped, not read.
class Dataset {
 public:
  /// Errors: DataError naming the file: missing, not JSON, a shard missing, short, or with another header than dataset.json says.
  explicit Dataset(const std::filesystem::path& folder);
  ~Dataset();
  Dataset(Dataset&&) noexcept;
  Dataset& operator=(Dataset&&) noexcept;

  [[nodiscard]] const DatasetInfo& info() const;
  [[nodiscard]] const std::filesystem::path& folder() const;
  /// Writes the S+1 ids of sample `index` (0 <= index < num_samples; stored order).
  /// Errors: DataError naming file and place for an id >= vocab_size.
  void read_sample(Index index, std::span<std::int32_t> ids) const;
  /// Reads every byte of every shard and compares the checksums.
  /// Errors: DataError naming all damaged shards.
  void verify() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Which of the S labels of a sample count when document boundaries are masked: is_valid_S[s] = ids[s] != end_of_document, so that no loss
/// falls on the first token of a document, which the one before it says nothing about.
void mark_valid_labels(std::span<const std::int32_t> ids, Index end_of_document, std::span<std::uint8_t> is_valid_S);

}  // namespace optimus
