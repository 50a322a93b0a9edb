// optimus dataset: looking at prepared folders.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/optimus/commands.hpp"
#include "apps/optimus/number_checks.hpp"
#include "optimus/base/counted.hpp"
#include "optimus/data/dataset.hpp"
#include "optimus/data/tokenizer.hpp"

namespace optimus {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kExamples = R"(Examples:
  optimus dataset inspect data/shakespeare
  optimus dataset inspect data/shakespeare --samples 3
  optimus dataset inspect data/shakespeare --json
  optimus dataset verify data/shakespeare)";

struct DatasetCommand {
  std::string folder;
  Index num_samples = 0;
  bool json = false;
};

/// The tokenizer the folder was made with, or nothing for given ids.
std::unique_ptr<Tokenizer> tokenizer_of(const Dataset& dataset) {
  const std::string& name = dataset.info().tokenizer;
  if (name == "none") return nullptr;
  return make_tokenizer(name == "bytes" ? name : (dataset.folder() / name).string());
}

Json sample_json(const Dataset& dataset, const Tokenizer* tokenizer, Index index) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(dataset.info().sequence_length + 1));
  dataset.read_sample(index, ids);
  Json sample{{"sample", index}, {"ids", ids}};
  if (tokenizer != nullptr) sample["text"] = tokenizer->decode(ids, false);
  return sample;
}

Json info_json(const DatasetInfo& info) {
  Json json{{"tokenizer", info.tokenizer},
            {"tokenizer_checksum", info.tokenizer_checksum},
            {"vocab_size", info.vocab_size},
            {"token_type", info.token_type},
            {"sequence_length", info.sequence_length},
            {"end_of_document", nullptr},
            {"seed", info.seed},
            {"documents", info.num_documents},
            {"empty_documents", info.num_empty_documents},
            {"tokens", info.num_tokens},
            {"dropped_tokens", info.num_dropped_tokens},
            {"samples", info.num_samples}};
  if (info.end_of_document >= 0) json["end_of_document"] = info.end_of_document;
  json["shards"] = Json::array();
  for (const ShardInfo& shard : info.shards)
    json["shards"].push_back({{"file", shard.file}, {"samples", shard.num_samples}, {"bytes", shard.bytes}, {"xxh64", shard.checksum}});
  return json;
}

void print_table(const DatasetInfo& info) {
  const auto row = [](std::string_view name, const auto& value) { fmt::print("{:<18} {}\n", name, value); };
  row("tokenizer", info.tokenizer_checksum.empty() ? info.tokenizer : info.tokenizer + " (" + info.tokenizer_checksum + ")");
  row("vocabulary", info.vocab_size);
  row("end of document", info.end_of_document >= 0 ? std::to_string(info.end_of_document) : "none");
  row("sequence length", info.sequence_length);
  row("seed", info.seed);
  row("documents", fmt::format("{} ({} empty, left out)", info.num_documents, info.num_empty_documents));
  row("tokens", fmt::format("{} ({} dropped at the ends of files)", info.num_tokens, info.num_dropped_tokens));
  row("samples", info.num_samples);
  row("token type", info.token_type);
  row("shards", info.shards.size());
  for (const ShardInfo& shard : info.shards) fmt::print("  {}  {:>10} samples  {:>13} bytes  {}\n", shard.file, shard.num_samples, shard.bytes, shard.checksum);
}

ExitCode inspect(const DatasetCommand& command) {
  const Dataset dataset(command.folder);
  const Index count = std::min(command.num_samples, dataset.info().num_samples);
  const auto tokenizer = count > 0 ? tokenizer_of(dataset) : nullptr;
  Json samples = Json::array();
  for (Index i = 0; i < count; ++i) samples.push_back(sample_json(dataset, tokenizer.get(), i));
  if (command.json) {
    Json json = info_json(dataset.info());
    if (command.num_samples > 0) json["first_samples"] = std::move(samples);
    fmt::print("{}\n", json.dump(1));
    return ExitCode::kDone;
  }
  print_table(dataset.info());
  for (const Json& sample : samples) {
    fmt::print("\nsample {}\n  ids  {}\n", sample["sample"].get<Index>(), sample["ids"].dump());
    if (sample.contains("text")) fmt::print("  text {}\n", sample["text"].dump());
  }
  return ExitCode::kDone;
}

ExitCode verify(const DatasetCommand& command) {
  const Dataset dataset(command.folder);
  dataset.verify();
  if (const auto tokenizer = tokenizer_of(dataset); tokenizer && tokenizer->checksum() != dataset.info().tokenizer_checksum) {
    throw DataError(fmt::format("[dataset] {}: {} is not the tokenizer that the ids were made with (checksum {}, recorded {})", command.folder,
                                dataset.info().tokenizer, tokenizer->checksum(), dataset.info().tokenizer_checksum));
  }
  const auto num_shards = dataset.info().shards.size();
  if (command.json) {
    fmt::print("{}\n", Json{{"valid", true}, {"shards", num_shards}, {"samples", dataset.info().num_samples}}.dump());
  } else {
    fmt::print("{}: {}, {}: all checksums are right\n", command.folder, counted(num_shards, "shard"), counted(dataset.info().num_samples, "sample"));
  }
  return ExitCode::kDone;
}

}  // namespace

void add_dataset_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("dataset", "Look at a prepared folder, or check it");
  const auto options = std::make_shared<DatasetCommand>();
  command->require_subcommand(1);
  command->footer(kExamples);
  CLI::App* inspect_command = command->add_subcommand("inspect", "Counts and shards; with --samples the first ones as ids and text");
  CLI::App* verify_command = command->add_subcommand("verify", "Check every header and every checksum");
  for (CLI::App* sub : {inspect_command, verify_command}) {
    sub->add_option("DIR", options->folder, "A folder made by optimus prepare")->required()->type_name("");
    sub->add_flag("--json", options->json, "One JSON object instead of text");
    sub->footer(kExamples);
  }
  inspect_command->add_option("--samples", options->num_samples, "Show the first N samples")->check(whole_number(0))->type_name("N");
  inspect_command->callback([options, &action] { action = [options] { return inspect(*options); }; });
  verify_command->callback([options, &action] { action = [options] { return verify(*options); }; });
}

}  // namespace optimus
