#include "optimus/data/document_tokens.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <cstring>

#include "optimus/base/error.hpp"
#include "optimus/data/data_files.hpp"
#include "optimus/data/utf8.hpp"

namespace optimus {
namespace {

constexpr std::size_t kChunkBytes = 1 << 20;

template <class T>
void append(std::span<const std::int32_t> ids, std::vector<std::byte>& out) {
  const std::size_t begin = out.size();
  out.resize(begin + ids.size() * sizeof(T));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto value = static_cast<T>(ids[i]);
    std::memcpy(out.data() + begin + i * sizeof(T), &value, sizeof(T));
  }
}

/// The ids of a JSON array; -1 for what is no id.
void read_ids(const simdjson::dom::array& array, std::vector<std::int32_t>& ids) {
  ids.clear();
  for (const simdjson::dom::element item : array) {
    std::int64_t value = -1;
    if (item.get(value) || value < 0 || value > INT32_MAX) value = -1;
    ids.push_back(static_cast<std::int32_t>(value));
  }
}

}  // namespace

void DocumentTokens::fail(Index line, std::string_view what) const { throw DataError(fmt::format("[prepare] {}:{}: {}", file_.path.string(), line, what)); }

void DocumentTokens::add_batch(const DocumentBatch& batch) {
  if (batch.is_whole_file) {
    const MappedFile file = map_data_file(file_.path);
    add_text({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, 1);
  } else if (file_.kind == InputKind::kJsonLines) {
    add_json_lines(batch);
  } else {
    for (const DocumentBatch::Piece& piece : batch.pieces) add_text(std::string_view(batch.text).substr(piece.begin, piece.end - piece.begin), piece.line);
  }
}

void DocumentTokens::check_text(std::string_view text, Index line) const {
  const Index at = find_ill_formed(text);
  if (at < 0) return;
  const std::string_view before = text.substr(0, static_cast<std::size_t>(at));
  const auto byte = static_cast<unsigned char>(text[static_cast<std::size_t>(at)]);
  fail(line + std::count(before.begin(), before.end(), '\n'),
       fmt::format("not UTF-8: byte 0x{:02X} at byte {} of its line", byte, before.size() - (before.rfind('\n') + 1) + 1));
}

void DocumentTokens::add_text(std::string_view text, Index line) {
  if (options_.tokenizer == nullptr) fail(line, "is text, but --tokenizer none takes given ids only (\"tokens\" in .jsonl, .npy, .bin)");
  check_text(text, line);
  bool is_empty = true;
  options_.tokenizer->encode_pieces(text, [&](std::span<const std::int32_t> ids) {
    is_empty = is_empty && ids.empty();
    add_ids(ids);
  });
  if (is_empty) {
    ++chunk_.counts.num_empty_documents;
    return;
  }
  const auto end = static_cast<std::int32_t>(options_.end_of_document);
  add_ids({&end, 1});
  ++chunk_.counts.num_documents;
}

void DocumentTokens::add_json_lines(const DocumentBatch& batch) {
  simdjson::dom::parser parser;
  std::vector<std::int32_t> ids;
  for (DocumentBatch::Piece piece : batch.pieces) {
    std::string_view line = std::string_view(batch.text).substr(piece.begin, piece.end - piece.begin);
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (piece.line == 1 && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
    simdjson::dom::element document;
    if (const auto error = parser.parse(line.data(), line.size(), false).get(document)) {
      check_text(line, piece.line);
      fail(piece.line, fmt::format("broken JSON: {}", simdjson::error_message(error)));
    }
    simdjson::dom::object object;
    if (document.get(object)) fail(piece.line, "must be a JSON object");
    std::string_view text;
    simdjson::dom::array tokens;
    simdjson::dom::element field;
    if (options_.tokenizer != nullptr && !object.at_key(options_.text_field).get(field)) {
      if (field.get(text)) fail(piece.line, fmt::format("\"{}\" must be a string", options_.text_field));
      add_text(text, piece.line);
      continue;
    }
    if (object.at_key("tokens").get(field)) {
      if (options_.tokenizer == nullptr) fail(piece.line, "has no \"tokens\", and --tokenizer none takes given ids only");
      fail(piece.line, fmt::format("has neither \"{}\" nor \"tokens\"; --text-field names another field", options_.text_field));
    }
    if (field.get(tokens)) fail(piece.line, "\"tokens\" must be an array of ids");
    read_ids(tokens, ids);
    const auto bad = std::find_if(ids.begin(), ids.end(), [&](std::int32_t id) { return id < 0 || (options_.vocab_size > 0 && id >= options_.vocab_size); });
    if (bad != ids.end()) {
      const std::string value = simdjson::to_string(tokens.at(static_cast<std::size_t>(bad - ids.begin())).value());
      fail(piece.line, *bad < 0 ? fmt::format("{} is no id", value) : fmt::format("id {} is not below the vocabulary's {}", value, options_.vocab_size));
    }
    ++(ids.empty() ? chunk_.counts.num_empty_documents : chunk_.counts.num_documents);
    add_ids(ids);
  }
}

void DocumentTokens::add_array(const TokenArray& array, Index begin, Index end, bool keep) {
  constexpr Index kBlock = 1 << 16;
  std::vector<std::int32_t> ids;
  for (Index at = begin; at < end; at += kBlock) {
    ids.resize(static_cast<std::size_t>(std::min(kBlock, end - at)));
    array.read(at, ids);
    const auto [smallest, largest] = std::minmax_element(ids.begin(), ids.end());
    if (*smallest < 0 || (options_.vocab_size > 0 && *largest >= options_.vocab_size)) {
      const auto bad = std::find_if(ids.begin(), ids.end(), [&](std::int32_t id) { return id < 0 || (options_.vocab_size > 0 && id >= options_.vocab_size); });
      const Index place = at + (bad - ids.begin());
      const std::string limit = *bad < 0 ? "is no id" : fmt::format("is not below the vocabulary's {}", options_.vocab_size);
      throw DataError(fmt::format("[prepare] {}: element {}: {} {}", file_.path.string(), place, array.value(place), limit));
    }
    if (keep) {
      add_ids(ids);
    } else {
      chunk_.counts.num_tokens += static_cast<Index>(ids.size());
      chunk_.counts.largest_id = std::max<Index>(chunk_.counts.largest_id, *largest);
    }
  }
  if (begin == 0) ++(array.size() > 0 ? chunk_.counts.num_documents : chunk_.counts.num_empty_documents);
}

void DocumentTokens::add_ids(std::span<const std::int32_t> ids) {
  if (ids.empty()) return;
  if (options_.token_type == TokenType::kU16) {
    append<std::uint16_t>(ids, chunk_.ids);
  } else {
    append<std::uint32_t>(ids, chunk_.ids);
  }
  chunk_.counts.num_tokens += static_cast<Index>(ids.size());
  chunk_.counts.largest_id = std::max<Index>(chunk_.counts.largest_id, *std::max_element(ids.begin(), ids.end()));
  if (chunk_.ids.size() >= kChunkBytes) finish();
}

void DocumentTokens::finish() {
  if (chunk_.ids.empty() && chunk_.counts.num_tokens == 0 && chunk_.counts.num_documents == 0 && chunk_.counts.num_empty_documents == 0) return;
  emit_(std::move(chunk_));
  chunk_ = TokenChunk();
}

}  // namespace optimus
