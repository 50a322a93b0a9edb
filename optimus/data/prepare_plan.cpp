#include "optimus/data/prepare_plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "optimus/base/counted.hpp"
#include "optimus/base/hash.hpp"

namespace optimus {
namespace {

constexpr std::string_view kNoTokenizer = "none";

void check_options(const PrepareOptions& o) {
  std::vector<std::string> problems;
  const auto require = [&](bool holds, std::string problem) {
    if (!holds) problems.push_back(std::move(problem));
  };
  const bool given_ids = o.tokenizer == kNoTokenizer;
  require(o.sequence_length >= 1, fmt::format("--sequence-length must be 1 or more, not {}", o.sequence_length));
  require(o.num_workers >= 1, fmt::format("--workers must be 1 or more, not {}", o.num_workers));
  require(o.shard_tokens >= 1, fmt::format("--shard-tokens must be 1 or more, not {}", o.shard_tokens));
  require(o.vocab_size >= 0 && o.vocab_size <= Index{1} << 31, fmt::format("--vocab-size must be 1 to 2^31, not {}", o.vocab_size));
  require(o.vocab_size == 0 || given_ids, "--vocab-size goes with --tokenizer none; a tokenizer has its own vocabulary");
  require(o.end_of_document.empty() || o.tokenizer != "bytes", "--end-of-document does not go with --tokenizer bytes, whose documents end with 256");
  require(o.bin_dtype.empty() || o.bin_dtype == "uint16" || o.bin_dtype == "uint32", fmt::format("--bin-dtype must be uint16 or uint32, not {}", o.bin_dtype));
  require(!o.inputs.empty(), "no input: name files, folders or globs");
  const std::string copied = std::filesystem::path(o.tokenizer).filename().string();
  require(copied != "dataset.json" && copied != "shards" && copied != "work",
          fmt::format("a tokenizer file called {} cannot be copied into the output folder; rename it", copied));
  if (!problems.empty()) throw ConfigError(fmt::format("[prepare] {}", fmt::join(problems, "; ")));
}

Index end_id(const PrepareOptions& o, const Tokenizer* tokenizer) {
  if (tokenizer == nullptr) {
    if (o.end_of_document.empty()) return -1;
    Index id = -1;
    const char* end = o.end_of_document.data() + o.end_of_document.size();
    const auto [stop, error] = std::from_chars(o.end_of_document.data(), end, id);
    if (error != std::errc() || stop != end || id < 0 || id > INT32_MAX)
      throw ConfigError(fmt::format("[prepare] --end-of-document must be an id with --tokenizer none, not {}", o.end_of_document));
    return id;
  }
  const std::optional<std::int32_t> id = o.end_of_document.empty() ? tokenizer->end_of_document() : tokenizer->id_of(o.end_of_document);
  if (id) return *id;
  if (o.end_of_document.empty())
    throw DataError(fmt::format("[prepare] {} has no <|endoftext|>; name the token that ends a document with --end-of-document", o.tokenizer));
  throw DataError(fmt::format("[prepare] {} has no token {}; --end-of-document must name one of its tokens", o.tokenizer, o.end_of_document));
}

/// Names and sizes of all files in order. Not their folders: a corpus may be moved.
std::string hash_of(const std::vector<InputFile>& files) {
  std::string list;
  for (const InputFile& file : files) list += fmt::format("{}\n{}\n", file.path.filename().string(), file.bytes);
  return hex64(xxh64(list));
}

}  // namespace

PreparePlan make_prepare_plan(const PrepareOptions& o) {
  check_options(o);
  PreparePlan plan;
  if (o.tokenizer != kNoTokenizer) plan.tokenizer = make_tokenizer(o.tokenizer);
  plan.end_of_document = end_id(o, plan.tokenizer.get());
  plan.files = find_input_files(o.inputs, o.out);
  const auto raw = std::find_if(plan.files.begin(), plan.files.end(), [](const InputFile& f) { return f.kind == InputKind::kRaw; });
  if (raw != plan.files.end() && o.bin_dtype.empty())
    throw ConfigError(fmt::format("[prepare] {}: say what its ids are with --bin-dtype uint16 or uint32", raw->path.string()));
  plan.raw_type = o.bin_dtype == "uint32" ? TokenType::kU32 : TokenType::kU16;
  plan.parts = plan_parts(plan.files, o.part_bytes);
  const Index vocab_size = plan.tokenizer ? plan.tokenizer->vocab_size() : o.vocab_size;
  if (vocab_size > 0) plan.token_type = token_type_for(vocab_size);
  if (o.vocab_size > 0 && plan.end_of_document >= o.vocab_size) {
    throw ConfigError(fmt::format("[prepare] --end-of-document {} is not below --vocab-size {}", plan.end_of_document, o.vocab_size));
  }
  Index bytes = 0;
  for (const InputFile& file : plan.files) bytes += file.bytes;
  plan.made_from = {{"tokenizer", plan.tokenizer ? plan.tokenizer->name() + " " + plan.tokenizer->checksum() : std::string(kNoTokenizer)},
                    {"sequence length", std::to_string(o.sequence_length)},
                    {"end of document", std::to_string(plan.end_of_document)},
                    {"vocabulary size", std::to_string(vocab_size)},
                    {"seed", std::to_string(o.seed)},
                    {"text field", o.text_field},
                    {"document separator", o.separator == DocumentSeparator::kBlankLine ? "blank-line" : "none"},
                    {"bin dtype", o.bin_dtype},
                    {"shard tokens", std::to_string(o.shard_tokens)},
                    {"input", fmt::format("{}, {} bytes, names and sizes {}", counted(plan.files.size(), "file"), bytes, hash_of(plan.files))}};
  return plan;
}

void check_same_plan(const PreparePlan& plan, const std::map<std::string, std::string>& other, const std::filesystem::path& folder) {
  std::vector<std::string> differences;
  for (const auto& [key, value] : plan.made_from) {
    const auto theirs = other.find(key);
    const std::string before = theirs == other.end() ? "nothing" : theirs->second;
    if (before != value) differences.push_back(fmt::format("{}: {} there, {} now", key, before, value));
  }
  if (differences.empty()) return;
  throw ConfigError(
      fmt::format("[prepare] {} was begun with other inputs or options ({}); give another --out or remove it", folder.string(), fmt::join(differences, "; ")));
}

}  // namespace optimus
