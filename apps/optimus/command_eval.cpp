// optimus eval: log-likelihoods of benchmark requests, or how well whole texts are predicted.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/optimus/commands.hpp"
#include "apps/optimus/ranks.hpp"
#include "optimus/backend/cpu/cpu_backend.hpp"
#include "optimus/base/file.hpp"
#include "optimus/base/log.hpp"
#include "optimus/data/data_files.hpp"
#include "optimus/eval/perplexity.hpp"
#include "optimus/eval/tasks.hpp"
#include "optimus/train/trainer.hpp"

namespace optimus {
namespace {

using Json = nlohmann::ordered_json;

struct EvalArguments {
  std::string model, tokenizer, per_request, dtype = "fp32";
  std::vector<std::string> requests, texts;
  bool is_json = false;
};

constexpr const char* kExamples =
    "Examples:\n"
    "  optimus eval --model hf/olmoe --tokenizer tokenizer.json --requests arc_easy.jsonl.gz piqa.jsonl.gz\n"
    "  mpirun -n 2 optimus eval --model runs/7b --tokenizer tokenizer.json --requests sciq.jsonl.gz --per-request scores.jsonl --json\n"
    "  optimus eval --model runs/quickstart --tokenizer bytes --text book.txt";

void write_per_request(const fs::path& path, const std::vector<LikelihoodRequest>& requests, const std::vector<EncodedRequest>& encoded,
                       const std::vector<RequestScore>& scores) {
  AtomicFile file(path);
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Json line = {{"task_name", requests[i].task_name}, {"doc_id", requests[i].doc_id},     {"idx", requests[i].choice},
                       {"logprob", scores[i].logprob},       {"is_greedy", scores[i].is_greedy}, {"continuation_tokens", encoded[i].continuation_tokens}};
    file.write(line.dump() + "\n");
  }
  file.commit();
}

void print_tasks(const std::map<std::string, TaskScore>& tasks, bool is_json) {
  if (!is_json) {
    fmt::print("{:<24} {:>10} {:>10} {:>10}\n", "task", "documents", "acc", "acc_norm");
    for (const auto& [name, score] : tasks) fmt::print("{:<24} {:>10} {:>10.4f} {:>10.4f}\n", name, score.documents, score.acc, score.acc_norm);
    return;
  }
  Json result = {{"tasks", Json::object()}};
  for (const auto& [name, score] : tasks) result["tasks"][name] = {{"acc", score.acc}, {"acc_norm", score.acc_norm}, {"documents", score.documents}};
  fmt::print("{}\n", result.dump());
}

/// What every mode needs.
struct Loaded {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Tokenizer> tokenizer;
  LoadedModel model;
};

Loaded load(const EvalArguments& a, Communicator& world) {
  Loaded loaded{.backend = make_cpu_backend(choose_threads(world)), .tokenizer = nullptr, .model = {}};
  agree(world, [&] { loaded.tokenizer = make_tokenizer(a.tokenizer); });
  loaded.model = load_model(world, *loaded.backend, a.model, a.dtype == "bf16" ? DType::kBF16 : DType::kF32);
  agree(world, [&] {
    const Index ids = loaded.tokenizer->vocab_size(), rows = loaded.model.config.vocab_size;
    if (ids > rows) throw DataError(fmt::format("[eval] {} has {} ids, the model only {}: it was trained with another tokenizer", a.tokenizer, ids, rows));
  });
  return loaded;
}

ExitCode score_requests(const EvalArguments& a, Communicator& world) {
  std::vector<LikelihoodRequest> requests;
  std::vector<EncodedRequest> encoded;
  agree(world, [&] {
    std::error_code ignored;  // the file to write need not exist
    for (const std::string& path : a.requests) {
      if (std::filesystem::equivalent(path, a.per_request, ignored))
        throw ConfigError(fmt::format("[eval] --per-request {} would replace the requests that are read; name another file", a.per_request));
    }
  });
  const Loaded loaded = load(a, world);
  agree(world, [&] {
    for (const std::string& path : a.requests) {
      std::vector<LikelihoodRequest> more = read_requests(path);
      requests.insert(requests.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    }
    for (const LikelihoodRequest& request : requests)
      encoded.push_back(encode_request(*loaded.tokenizer, request, loaded.model.config.max_position_embeddings));
  });
  const std::vector<RequestScore> scores = score_requests(world, *loaded.backend, loaded.model, encoded);
  if (world.rank() == 0) {
    if (!a.per_request.empty()) write_per_request(a.per_request, requests, encoded, scores);
    print_tasks(score_tasks(requests, scores), a.is_json);
  }
  return ExitCode::kDone;
}

ExitCode score_texts(const EvalArguments& a, Communicator& world) {
  std::vector<std::string> texts;
  const Loaded loaded = load(a, world);
  agree(world, [&] {
    for (const std::string& path : a.texts) texts.push_back(read_data_file(path));
  });
  const TextScore score = score_texts(world, *loaded.backend, loaded.model, *loaded.tokenizer, texts);
  if (world.rank() == 0) {
    if (a.is_json) {
      const Json result = {{"documents", score.documents},
                           {"bytes", score.bytes},
                           {"tokens", score.tokens},
                           {"bits_per_byte", score.bits_per_byte()},
                           {"perplexity", score.perplexity()}};
      fmt::print("{}\n", result.dump());
    } else {
      fmt::print("documents      {}\nbytes          {}\ntokens         {}\nbits_per_byte  {:.4f}\nperplexity     {:.4f}\n", score.documents, score.bytes,
                 score.tokens, score.bits_per_byte(), score.perplexity());
    }
  }
  return ExitCode::kDone;
}

}  // namespace

void add_eval_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("eval", "Score benchmark requests or texts with a model; alone or under an MPI starter");
  command->footer(kExamples);
  auto a = std::make_shared<EvalArguments>();
  command->add_option("--model", a->model, "Hugging Face folder, checkpoint or run folder")->required()->type_name("DIR");
  command->add_option("--tokenizer", a->tokenizer, "bytes or a Hugging Face tokenizer.json")->required()->type_name("bytes|FILE");
  auto* requests = command->add_option("--requests", a->requests, "Log-likelihood requests, a JSON object a line, plain or .gz")->type_name("FILE...");
  auto* texts = command->add_option("--text", a->texts, "Text files, each one document: bits per byte and perplexity by sliding windows")->type_name("FILE...");
  requests->excludes(texts);
  command->add_option("--per-request", a->per_request, "Of --requests: write a JSON line for each, in order")->type_name("FILE")->needs(requests);
  command->add_option("--dtype", a->dtype, "Element type to compute in")->check(CLI::IsMember({"fp32", "bf16"}))->capture_default_str();
  command->add_flag("--json", a->is_json, "Print one JSON object");
  command->callback([&action, a] {
    if (a->requests.empty() == a->texts.empty()) throw CLI::RequiredError("--requests or --text");
    action = [a] {
      return run_on_ranks(a->texts.empty() ? "eval --requests" : "eval --text",
                          [a](const Ranks& ranks) { return a->texts.empty() ? score_requests(*a, ranks.world) : score_texts(*a, ranks.world); });
    };
  });
}

}  // namespace optimus
