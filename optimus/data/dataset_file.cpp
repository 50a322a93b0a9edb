#include "optimus/data/dataset_file.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "optimus/base/counted.hpp"
#include "optimus/base/error.hpp"
#include "optimus/data/data_files.hpp"

namespace optimus {
namespace {

using Json = nlohmann::ordered_json;
constexpr Index kVersion = 1;

/// Visits every field of dataset.json once, in its order in the file.
template <class Info, class Visit>
void each_field(Info& info, Visit&& visit) {
  visit("tokenizer", info.tokenizer);
  visit("tokenizer_checksum", info.tokenizer_checksum);
  visit("vocab_size", info.vocab_size);
  visit("token_type", info.token_type);
  visit("sequence_length", info.sequence_length);
  visit("end_of_document", info.end_of_document);
  visit("seed", info.seed);
  visit("documents", info.num_documents);
  visit("empty_documents", info.num_empty_documents);
  visit("tokens", info.num_tokens);
  visit("dropped_tokens", info.num_dropped_tokens);
  visit("samples", info.num_samples);
  visit("made_from", info.made_from);
}

template <class Info, class Visit>
void each_shard_field(Info& shard, Visit&& visit) {
  visit("file", shard.file);
  visit("samples", shard.num_samples);
  visit("bytes", shard.bytes);
  visit("xxh64", shard.checksum);
}

[[noreturn]] void fail(const fs::path& path, std::string_view what) { throw DataError(fmt::format("[dataset] {}: {}", path.string(), what)); }

/// Reads fields out of one JSON object.
struct FieldReader {
  const fs::path& path;
  const Json& object;
  template <class T> void operator()(const char* key, T& value) const {
    const auto found = object.find(key);
    if (found == object.end()) fail(path, fmt::format("has no \"{}\"", key));
    try {
      if constexpr (std::is_same_v<T, Index>) {
        if (!found->is_number_integer()) fail(path, fmt::format("\"{}\" must be a whole number", key));
      }
      found->get_to(value);
    } catch (const Json::exception&) {
      fail(path, fmt::format("\"{}\" has the wrong type", key));
    }
  }
};

void check(const fs::path& path, const DatasetInfo& info) {
  Index samples = 0;
  for (const ShardInfo& shard : info.shards) {
    if (shard.num_samples < 0 || shard.file.find("..") != std::string::npos) fail(path, "describes an impossible shard");
    samples = checked_add(samples, shard.num_samples);
  }
  if (samples != info.num_samples) fail(path, fmt::format("says {}, but its shards hold {}", counted(info.num_samples, "sample"), samples));
  for (const Index count : {info.num_documents, info.num_empty_documents, info.num_tokens, info.num_dropped_tokens}) {
    if (count < 0) fail(path, fmt::format("says {} documents or tokens", count));
  }
  constexpr Index kLargestSize = Index{1} << 31;  // ids are 31 bits, and so are places in a sample
  if (info.sequence_length > kLargestSize || info.vocab_size > kLargestSize)
    fail(path, fmt::format("sequence length {} and vocabulary {} cannot be above {}", info.sequence_length, info.vocab_size, kLargestSize));
  if (info.sequence_length < 1 || info.vocab_size < 1)
    fail(path, fmt::format("sequence length {} and vocabulary {} must be positive", info.sequence_length, info.vocab_size));
  if (info.token_type != "uint16" && info.token_type != "uint32") fail(path, fmt::format("token type {} is neither uint16 nor uint32", info.token_type));
  if (info.end_of_document < -1 || info.end_of_document >= info.vocab_size)
    fail(path, fmt::format("end of document {} is not in the vocabulary of {}", info.end_of_document, info.vocab_size));
}

}  // namespace

std::string shard_name(Index shard) { return fmt::format("shards/shard-{:05}.npy", shard); }

void write_dataset_file(const fs::path& folder, const DatasetInfo& info) {
  Json json;
  json["version"] = kVersion;
  each_field(info, [&](const char* key, const auto& value) { json[key] = value; });
  if (info.end_of_document < 0) json["end_of_document"] = nullptr;
  json["shards"] = Json::array();
  for (const ShardInfo& shard : info.shards) {
    Json entry;
    each_shard_field(shard, [&](const char* key, const auto& value) { entry[key] = value; });
    json["shards"].push_back(std::move(entry));
  }
  write_file_atomically(folder / kDatasetFileName, json.dump(1) + "\n");
}

DatasetInfo read_dataset_file(const fs::path& folder) {
  const fs::path path = folder / kDatasetFileName;
  if (!fs::is_directory(folder)) throw DataError(fmt::format("[dataset] {}: no such folder; optimus prepare makes one", folder.string()));
  if (!fs::exists(path)) {
    const bool is_unfinished = fs::exists(folder / "work" / "plan.json");
    throw DataError(fmt::format("[dataset] {}: has no {}{}", folder.string(), kDatasetFileName,
                                is_unfinished ? "; it is unfinished: start the same optimus prepare again" : ", so it is no folder made by optimus prepare"));
  }
  Json json = Json::parse(read_data_file(path), nullptr, false);
  if (json.is_discarded() || !json.is_object()) fail(path, "is not a JSON object (truncated or damaged?)");
  Index version = 0;
  FieldReader{path, json}("version", version);
  if (version != kVersion) fail(path, fmt::format("has version {}; this program reads {}", version, kVersion));
  DatasetInfo info;
  if (json.contains("end_of_document") && json["end_of_document"].is_null()) json["end_of_document"] = -1;
  each_field(info, FieldReader{path, json});
  const auto shards = json.find("shards");
  if (shards == json.end() || !shards->is_array()) fail(path, "has no list of shards");
  for (const Json& entry : *shards) {
    if (!entry.is_object()) fail(path, "has a shard that is no object");
    each_shard_field(info.shards.emplace_back(), FieldReader{path, entry});
  }
  check(path, info);
  info.token_bytes = info.token_type == "uint16" ? 2 : 4;
  return info;
}

}  // namespace optimus
