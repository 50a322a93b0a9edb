#pragma once
// What stands behind the INPUT arguments of `prepare`: files, folders and globs become one list of files of known kinds.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "optimus/base/index.hpp"
#include "optimus/data/byte_stream.hpp"

namespace optimus {

enum class InputKind { kText, kJsonLines, kNpy, kRaw };

/// One file of a corpus.
struct InputFile {
  std::filesystem::path path;
  InputKind kind = InputKind::kText;
  Compression compression = Compression::kNone;
  Index bytes = 0;
  std::int64_t modified_ns = 0;  ///< to notice that a file changed between two runs
};

/// The files in the order given. A folder stands for its files at any depth, sorted by path; hidden ones and those of other kinds are
/// passed over. A glob that names no file itself stands for its matches, sorted. `excluded` (the output folder) is never looked into.
/// Errors: DataError for what does not exist, a glob without matches, a file of unknown kind, or if nothing is left.
[[nodiscard]] std::vector<InputFile> find_input_files(const std::vector<std::string>& inputs, const std::filesystem::path& excluded);

}  // namespace optimus
