#pragma once
// The pieces in which a corpus is turned into ids: each is done as a whole or not at all, by one rank, and remembered by a record.

#include <filesystem>
#include <optional>
#include <vector>

#include "optimus/data/input_files.hpp"
#include "optimus/data/token_array.hpp"

namespace optimus {

/// Consecutive input files [begin, end) whose ids share one file; or one large array of given ids, read where it lies.
struct CorpusPart {
  Index begin = 0, end = 0;
  bool is_in_place = false;
};

/// What an input file gave.
struct FileTokens {
  Index num_tokens = 0, num_documents = 0, num_empty_documents = 0;
  Index largest_id = -1;
};

/// Files up to `part_bytes` together share a part; arrays of that size and more are parts of their own, in place.
[[nodiscard]] std::vector<CorpusPart> plan_parts(const std::vector<InputFile>& files, Index part_bytes);

/// Where part `index` keeps its ids.
[[nodiscard]] std::filesystem::path part_tokens_path(const std::filesystem::path& work, Index index);
/// Remembers that a part is done. Its ids are already in place.  Errors: FileError.
void write_part_record(const std::filesystem::path& work, Index index, const CorpusPart& part, const std::vector<InputFile>& files,
                       const std::vector<FileTokens>& tokens);
/// By file of the part; nothing if the part is not done, an input file has changed since, or its ids are not whole.
[[nodiscard]] std::optional<std::vector<FileTokens>> read_part_record(const std::filesystem::path& work, Index index, const CorpusPart& part,
                                                                      const std::vector<InputFile>& files, TokenType type);

}  // namespace optimus
