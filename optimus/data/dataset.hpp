#pragma once
// A prepared folder, read: dataset.json and its memory-mapped shards.

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "optimus/base/index.hpp"

namespace optimus {

/// What dataset.json says.
struct DatasetInfo {
  std::string tokenizer;            ///< "bytes", the name of the copied tokenizer file, or "none"
  std::string tokenizer_checksum;
  Index vocab_size = 0;
  Index token_bytes = 2;            ///< 2 (uint16) or 4 (uint32)
  Index sequence_length = 0;        ///< S; a sample has S + 1 ids
  Index end_of_document = -1;       ///< id, or -1 if there is none
  Index num_samples = 0, num_tokens = 0, num_documents = 0;
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

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace optimus
