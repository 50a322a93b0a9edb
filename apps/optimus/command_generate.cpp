// optimus generate: text by a trained model.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "apps/optimus/commands.hpp"
#include "apps/optimus/number_checks.hpp"
#include "apps/optimus/ranks.hpp"
#include "optimus/backend/cpu/cpu_backend.hpp"
#include "optimus/data/tokenizer.hpp"
#include "optimus/eval/generate.hpp"
#include "optimus/train/trainer.hpp"

namespace optimus {
namespace {

struct GenerateArguments {
  std::string model, tokenizer, prompt, dtype = "fp32";
  SamplingOptions sampling;
  bool echo = false;
};

ExitCode write_text(const GenerateArguments& a, Communicator& world) {
  if (world.size() > 1) throw ConfigError("[generate] runs on one rank; start it without mpirun");
  const auto backend = make_cpu_backend(choose_threads(world));
  const auto tokenizer = make_tokenizer(a.tokenizer);
  const LoadedModel model = load_model(world, *backend, a.model, a.dtype == "bf16" ? DType::kBF16 : DType::kF32);
  if (tokenizer->vocab_size() > model.config.vocab_size) {
    throw DataError(fmt::format("[generate] {} has {} ids, the model only {}: it was trained with another tokenizer", a.tokenizer, tokenizer->vocab_size(),
                                model.config.vocab_size));
  }
  std::vector<std::int32_t> prompt;
  tokenizer->encode(a.prompt, prompt);
  if (prompt.empty()) {
    const auto end = tokenizer->end_of_document();
    if (!end) throw DataError("[generate] an empty prompt needs a tokenizer with an end-of-document token; give --prompt");
    prompt.push_back(*end);
  }
  const std::vector<std::int32_t> ids = generate(*backend, model, prompt, tokenizer->end_of_document(), a.sampling);
  fmt::print("{}{}\n", a.echo ? a.prompt : "", tokenizer->decode(ids, false));
  return ExitCode::kDone;
}

}  // namespace

void add_generate_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("generate", "Continue a prompt with a trained model; prints the new text");
  command->footer(
      "Examples:\n"
      "  optimus generate --model runs/quickstart --tokenizer bytes --prompt \"Ocean\"\n"
      "  optimus generate --model hf/olmoe --tokenizer tokenizer.json --prompt \"The sea\" --temperature 0 --max-new-tokens 40");
  auto a = std::make_shared<GenerateArguments>();
  command->add_option("--model", a->model, "Hugging Face folder, checkpoint or run folder")->required()->type_name("DIR");
  command->add_option("--tokenizer", a->tokenizer, "bytes or a Hugging Face tokenizer.json")->required()->type_name("bytes|FILE");
  command->add_option("--prompt", a->prompt, "Text to continue; empty: the start of a document")->type_name("TEXT");
  command->add_option("--max-new-tokens", a->sampling.max_new_tokens, "Stop after so many, if the document has not ended before")
      ->check(whole_number(1))
      ->capture_default_str();
  command->add_option("--temperature", a->sampling.temperature, "0: always the most likely token")->check(finite_number(0))->capture_default_str();
  command->add_option("--top-k", a->sampling.top_k, "Only the k most likely tokens; 0: all")->check(whole_number(0))->capture_default_str();
  command->add_option("--top-p", a->sampling.top_p, "Only the fewest tokens whose probabilities reach p")->check(finite_number(0, 1))->capture_default_str();
  command->add_option("--seed", a->sampling.seed, "The same seed draws the same text")->check(whole_number(0))->capture_default_str();
  command->add_option("--dtype", a->dtype, "Element type to compute in")->check(CLI::IsMember({"fp32", "bf16"}))->capture_default_str();
  command->add_flag("--echo", a->echo, "Print the prompt before the new text");
  command->callback([&action, a] { action = [a] { return run_on_ranks("generate", [a](const Ranks& ranks) { return write_text(*a, ranks.world); }); }; });
}

}  // namespace optimus
