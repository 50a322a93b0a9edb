#include "optimus/data/corpus_parts.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "optimus/base/file.hpp"

namespace optimus {
namespace {

using Json = nlohmann::ordered_json;

bool is_array(const InputFile& file) { return file.kind == InputKind::kNpy || file.kind == InputKind::kRaw; }

fs::path record_path(const fs::path& work, Index index) { return work / fmt::format("part-{:05}.json", index); }

}  // namespace

std::vector<CorpusPart> plan_parts(const std::vector<InputFile>& files, Index part_bytes) {
  std::vector<CorpusPart> parts;
  Index bytes = part_bytes;  // full: the first file opens a part
  for (Index i = 0; i < static_cast<Index>(files.size()); ++i) {
    const InputFile& file = files[static_cast<std::size_t>(i)];
    const bool is_large = is_array(file) && file.bytes >= part_bytes;
    if (is_large || parts.empty() || bytes + file.bytes > part_bytes) {
      parts.push_back({i, i + 1, is_large});
      bytes = is_large ? part_bytes : file.bytes;
    } else {
      parts.back().end = i + 1;
      bytes += file.bytes;
    }
  }
  return parts;
}

fs::path part_tokens_path(const fs::path& work, Index index) { return work / fmt::format("part-{:05}.tokens", index); }

void write_part_record(const fs::path& work, Index index, const CorpusPart& part, const std::vector<InputFile>& files, const std::vector<FileTokens>& tokens) {
  Json rows = Json::array();
  for (Index i = part.begin; i < part.end; ++i) {
    const InputFile& file = files[static_cast<std::size_t>(i)];
    const FileTokens& t = tokens[static_cast<std::size_t>(i - part.begin)];
    rows.push_back({file.bytes, file.modified_ns, t.num_tokens, t.num_documents, t.num_empty_documents, t.largest_id});
  }
  write_file_atomically(record_path(work, index), Json{{"first_file", part.begin}, {"files", rows}}.dump() + "\n");
}

std::optional<std::vector<FileTokens>> read_part_record(const fs::path& work, Index index, const CorpusPart& part, const std::vector<InputFile>& files,
                                                        TokenType type) {
  const fs::path path = record_path(work, index);
  if (!fs::exists(path)) return std::nullopt;
  const Json record = Json::parse(read_file(path), nullptr, false);
  if (!record.is_object() || record.value("first_file", Index{-1}) != part.begin || !record.contains("files")) return std::nullopt;
  const Json& rows = record["files"];
  if (static_cast<Index>(rows.size()) != part.end - part.begin) return std::nullopt;
  std::vector<FileTokens> tokens;
  Index total = 0;
  for (Index i = part.begin; i < part.end; ++i) {
    const InputFile& file = files[static_cast<std::size_t>(i)];
    const auto row = rows[static_cast<std::size_t>(i - part.begin)].get<std::vector<std::int64_t>>();
    constexpr std::size_t kFields = 6;
    if (row.size() != kFields || row[0] != file.bytes || row[1] != file.modified_ns) return std::nullopt;
    tokens.push_back({.num_tokens = row[2], .num_documents = row[3], .num_empty_documents = row[4], .largest_id = row[5]});
    total += row[2];
  }
  if (part.is_in_place) return tokens;
  const fs::path ids = part_tokens_path(work, index);
  if (!fs::exists(ids) || static_cast<Index>(fs::file_size(ids)) != total * token_type_bytes(type)) return std::nullopt;
  return tokens;
}

}  // namespace optimus
