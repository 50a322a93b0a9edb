#pragma once
// dataset.json: what a prepared folder says about itself.

#include <filesystem>
#include <string>
#include <vector>

#include "optimus/data/dataset.hpp"

namespace optimus {

inline constexpr const char* kDatasetFileName = "dataset.json";

/// "shards/shard-00000.npy", ….
[[nodiscard]] std::string shard_name(Index shard);

/// Writes `folder`/dataset.json, atomically.  Errors: FileError.
void write_dataset_file(const std::filesystem::path& folder, const DatasetInfo& info);
/// Errors: DataError naming the file: missing, not JSON, a key missing or of the wrong type, counts that do not add up.
[[nodiscard]] DatasetInfo read_dataset_file(const std::filesystem::path& folder);

}  // namespace optimus
