#include "optimus/data/tokenizer_file.hpp"

#include <fmt/format.h>

#include <unordered_map>

#include "optimus/base/counted.hpp"
#include "optimus/base/hash.hpp"
#include "optimus/base/log.hpp"
#include "optimus/data/byte_alphabet.hpp"
#include "optimus/data/data_files.hpp"
#include "optimus/data/tokenizer_json.hpp"

namespace optimus {
namespace {

constexpr std::int64_t kMaxVocabulary = std::int64_t{1} << 31;

/// Collects ids, then finds what is there twice and what is missing.
class Vocabulary {
 public:
  explicit Vocabulary(TokenizerFile& file) : file_(file) {}

  void add(const JsonNode& where, std::string_view token, std::int64_t id) {
    if (id < 0 || id >= kMaxVocabulary) where.fail(fmt::format("the id {} of {} is out of range", id, JsonNode::quoted(token)));
    const auto [entry, is_new] = ids_.emplace(std::string(token), static_cast<std::int32_t>(id));
    if (!is_new) where.fail(fmt::format("{} stands twice in the vocabulary", JsonNode::quoted(token)));
    const auto [owner, is_free] = owners_.emplace(static_cast<std::int32_t>(id), &entry->first);
    if (!is_free) where.fail(fmt::format("the id {} belongs to both {} and {}", id, JsonNode::quoted(*owner->second), JsonNode::quoted(token)));
  }
  [[nodiscard]] std::int32_t find(std::string_view token) const {
    const auto entry = ids_.find(std::string(token));
    return entry == ids_.end() ? -1 : entry->second;
  }
  void finish(const JsonNode& where) {
    file_.tokens.resize(ids_.size());
    for (const auto& [token, id] : ids_) {
      if (static_cast<std::size_t>(id) < ids_.size()) continue;
      std::int32_t hole = 0;
      while (owners_.contains(hole)) ++hole;
      where.fail(fmt::format("{}, but the id {} has none while {} has {}", counted(ids_.size(), "token"), hole, JsonNode::quoted(token), id));
    }
    for (const auto& [token, id] : ids_) file_.tokens[static_cast<std::size_t>(id)] = token;
  }

 private:
  TokenizerFile& file_;
  std::unordered_map<std::string, std::int32_t> ids_;
  std::unordered_map<std::int32_t, const std::string*> owners_;
};

void check_model(const JsonNode& model) {
  // Files older than the "type" key have vocabulary and merges all the same.
  if (model.has("type") && model.at("type").text() != "BPE") model.fail("type is " + JsonNode::quoted(model.at("type").text()) + "; only BPE is supported");
  for (const std::string_view key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (model.has(key) && !model.at(key).text().empty()) model.at(key).fail("is not supported");
  }
  double dropout = 0;
  if (model.has("dropout") && (model.at("dropout").value().get(dropout) || dropout != 0)) model.at("dropout").fail("is not supported: ids would be random");
  if (model.flag("byte_fallback", false)) model.at("byte_fallback").fail("is not supported");
}

void read_added_tokens(const JsonNode& node, Vocabulary& vocabulary, TokenizerFile& file) {
  if (node.is_null()) return;
  node.each([&](const JsonNode& entry) {
    AddedToken token;
    token.content = entry.at("content").text();
    const std::int64_t id = entry.at("id").integer();
    const std::int32_t known = vocabulary.find(token.content);
    if (known < 0) {
      vocabulary.add(entry, token.content, id);
    } else if (known != id) {
      entry.fail(fmt::format("{} has the id {} here and {} in the vocabulary", JsonNode::quoted(token.content), id, known));
    }
    token.id = static_cast<std::int32_t>(id);
    token.is_single_word = entry.flag("single_word", false);
    token.strips_left = entry.flag("lstrip", false);
    token.strips_right = entry.flag("rstrip", false);
    token.is_special = entry.flag("special", false);
    token.is_normalized = entry.flag("normalized", !token.is_special);
    file.added_tokens.push_back(std::move(token));
  });
}

/// "a b" or ["a", "b"].
std::pair<std::string_view, std::string_view> merge_parts(const JsonNode& merge) {
  if (merge.is_string()) {
    const std::string_view text = merge.text();
    const std::size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos)
      merge.fail("must be two tokens with a space between, not " + JsonNode::quoted(text));
    return {text.substr(0, space), text.substr(space + 1)};
  }
  std::vector<std::string_view> parts;
  merge.each([&](const JsonNode& part) { parts.push_back(part.text()); });
  if (parts.size() != 2) merge.fail(fmt::format("must be two tokens, not {}", parts.size()));
  return {parts[0], parts[1]};
}

void read_merges(const JsonNode& node, const Vocabulary& vocabulary, TokenizerFile& file) {
  node.each([&](const JsonNode& merge) {
    if (merge.is_string() && merge.text().starts_with("#version")) return;
    const auto [left, right] = merge_parts(merge);
    const std::string joined = std::string(left) + std::string(right);
    for (const std::string_view token : {left, right, std::string_view(joined)}) {
      if (vocabulary.find(token) < 0)
        merge.fail(
            fmt::format("{} of the merge of {} and {} is not in the vocabulary", JsonNode::quoted(token), JsonNode::quoted(left), JsonNode::quoted(right)));
    }
    file.merges.push_back({vocabulary.find(left), vocabulary.find(right), vocabulary.find(joined)});
  });
}

void read_bytes(const JsonNode& model, const Vocabulary& vocabulary, TokenizerFile& file) {
  const ByteAlphabet alphabet;
  int missing = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const std::int32_t id = vocabulary.find(alphabet.character(static_cast<std::uint8_t>(byte)));
    file.bytes.id[static_cast<std::size_t>(byte)] = id;
    const bool is_in_utf8 = byte < 0xC0 || (byte > 0xC1 && byte < 0xF5);
    if (id < 0 && is_in_utf8) ++missing;
  }
  if (model.has("unk_token")) {
    const JsonNode unknown = model.at("unk_token");
    const std::int32_t id = vocabulary.find(unknown.text());
    if (id < 0) unknown.fail(JsonNode::quoted(unknown.text()) + " is not in the vocabulary");
    file.bytes.unknown = id;
  } else if (missing > 0) {
    log_warning("[tokenizer] {}: {} of the bytes of UTF-8 text have no token and no unknown token stands in for them: they will be left out", file.name,
                missing);
  }
  file.bytes.fuse_unknown = model.flag("fuse_unk", false);
}

void warn_about_ignored(const JsonNode& root, const TokenizerFile& file) {
  for (const std::string_view key : {"truncation", "padding"}) {
    if (root.has(key)) log_warning("[tokenizer] {}: its \"{}\" is not applied: texts are encoded whole and as they are", file.name, key);
  }
}

}  // namespace

TokenizerFile read_tokenizer_file(const std::filesystem::path& path) {
  const std::string name = path.string();
  if (!std::filesystem::is_regular_file(path))
    throw DataError("[tokenizer] " + name + ": no such file; --tokenizer takes bytes or the path of a tokenizer.json");
  const std::string text = read_data_file(path);
  simdjson::dom::parser parser;
  simdjson::dom::element document;
  if (const auto error = parser.parse(text).get(document)) {
    throw DataError("[tokenizer] " + name + ": is not JSON: " + simdjson::error_message(error) +
                    (text.empty() ? " (the file is empty)" : " (truncated or damaged?)"));
  }
  TokenizerFile file;
  file.name = path.filename().string();
  file.checksum = hex64(xxh64(text));
  const JsonNode root(name, "", document);
  const JsonNode model = root.at("model");
  check_model(model);
  Vocabulary vocabulary(file);
  const JsonNode vocab = model.at("vocab");
  for (const auto [token, id] : vocab.object()) {
    std::int64_t value = 0;
    if (id.get(value)) vocab.fail("the id of " + JsonNode::quoted(token) + " must be a whole number");
    vocabulary.add(vocab, token, value);
  }
  read_bytes(model, vocabulary, file);
  read_added_tokens(root.find("added_tokens"), vocabulary, file);
  vocabulary.finish(vocab);
  if (file.tokens.empty()) vocab.fail("is empty");
  read_merges(model.at("merges"), vocabulary, file);
  file.ignore_merges = model.flag("ignore_merges", false);
  read_normalizer(root.find("normalizer"), file);
  read_pre_tokenizer(root.find("pre_tokenizer"), file);
  check_decoder(root.find("decoder"));
  check_post_processor(root.find("post_processor"));
  warn_about_ignored(root, file);
  return file;
}

}  // namespace optimus
