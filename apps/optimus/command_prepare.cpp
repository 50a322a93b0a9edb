// optimus prepare: from text files to a folder that training reads.

#include <fmt/format.h>
#include <sched.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "apps/optimus/commands.hpp"
#include "apps/optimus/number_checks.hpp"
#include "apps/optimus/ranks.hpp"
#include "optimus/base/counted.hpp"
#include "optimus/base/log.hpp"
#include "optimus/data/prepare.hpp"

namespace optimus {
namespace {

constexpr const char* kExamples = R"(Inputs, each a file, a folder or a glob: .txt (a file is one document, or --document-separator blank-line), .jsonl with a
"text" field or given "tokens", both also as .gz and .zst; arrays of ids as .npy or .bin (--bin-dtype).

Examples:
  optimus prepare --out data/shakespeare --tokenizer bytes --sequence-length 256 shakespeare.txt
  optimus prepare --out data/web --tokenizer tokenizer.json --sequence-length 2048 'crawl/*.jsonl.zst'
  optimus prepare --out data/ids --tokenizer none --sequence-length 1024 --bin-dtype uint16 tokens.bin
  mpirun -n 8 optimus prepare --out data/web --tokenizer tokenizer.json --sequence-length 2048 crawl/

An interrupted call goes on where it stopped when it is made again.)";

constexpr Index kLargestSize = Index{1} << 31;  // ids are 31 bits
constexpr Index kMostWorkers = 1024;            // more threads than any machine has for it

/// Processors that this process may use.
Index available_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof(set), &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

void report(const PrepareResult& result, const std::string& folder) {
  const DatasetInfo& info = result.info;
  if (result.was_finished) {
    log_info("[prepare] {} is finished already: nothing to do", folder);
  } else {
    log_info("[prepare] {} is finished", folder);
  }
  fmt::print("{}: {} of {} + 1 ids in {}; {} ({} empty, left out), {}, {} of them dropped at the ends of files; vocabulary {}, {}\n", folder,
             counted(info.num_samples, "sample"), info.sequence_length, counted(info.shards.size(), "shard"), counted(info.num_documents, "document"),
             info.num_empty_documents, counted(info.num_tokens, "id"), info.num_dropped_tokens, info.vocab_size, info.token_type);
}

ExitCode run(const PrepareOptions& options) {
  return run_on_ranks("prepare", [&](const Ranks& ranks) {
    constexpr double kForever = 1e9;
    ranks.set_time_limit(kForever);  // ranks with little text wait for those with much, however long that takes
    const PrepareResult result = prepare(options, ranks.world);
    if (ranks.world.rank() == 0) report(result, options.out.string());
    return ExitCode::kDone;
  });
}

}  // namespace

void add_prepare_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("prepare", "Turn text or token files into a dataset for training");
  const auto options = std::make_shared<PrepareOptions>();
  options->num_workers = available_processors();
  command->add_option("--out", options->out, "Folder to write")->required()->check(not_empty())->type_name("DIR");
  command->add_option("--tokenizer", options->tokenizer, "bytes, a Hugging Face tokenizer.json (byte-level BPE), or none for given ids")
      ->required()
      ->type_name("bytes|FILE|none");
  command->add_option("--sequence-length", options->sequence_length, "Ids of a training sequence")
      ->required()
      ->check(whole_number(1, kLargestSize))
      ->type_name("S");
  command->add_option("--end-of-document", options->end_of_document, "Token put after each document (default: <|endoftext|>); an id with --tokenizer none")
      ->type_name("TOKEN");
  command->add_option("--vocab-size", options->vocab_size, "With --tokenizer none: ids are below it (default: the largest id + 1)")
      ->check(whole_number(1, kLargestSize))
      ->type_name("N");
  command->add_option("--seed", options->seed, "Seed of the shuffle")->check(whole_number(0))->capture_default_str()->type_name("N");
  command->add_option("--text-field", options->text_field, "Field of .jsonl lines that holds the text")->capture_default_str()->type_name("NAME");
  command
      ->add_option_function<std::string>(
          "--document-separator",
          [options](const std::string& value) { options->separator = value == "blank-line" ? DocumentSeparator::kBlankLine : DocumentSeparator::kNone; },
          "What separates documents in .txt files: none (a file is one), blank-line")
      ->check(CLI::IsMember({"none", "blank-line"}))
      ->type_name("KIND");
  command->add_option("--bin-dtype", options->bin_dtype, "What .bin files hold, little-endian")
      ->check(CLI::IsMember({"uint16", "uint32"}))
      ->type_name("uint16|uint32");
  command->add_option("--shard-tokens", options->shard_tokens, "Size of a shard, S ids a sample")
      ->check(whole_number(1))
      ->capture_default_str()
      ->type_name("N");
  command->add_option("--workers", options->num_workers, "Threads of each rank; the bytes do not depend on it")
      ->check(whole_number(1, kMostWorkers))
      ->capture_default_str()
      ->type_name("N");
  command->add_option("INPUT", options->inputs, "Files, folders, globs")->required();
  command->footer(kExamples);
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace optimus
