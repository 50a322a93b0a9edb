// optimus tokenize: texts to ids and back, a JSON object a line.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/optimus/commands.hpp"
#include "optimus/data/byte_stream.hpp"
#include "optimus/data/json_line.hpp"
#include "optimus/data/tokenizer.hpp"

namespace optimus {
namespace {

using Json = nlohmann::json;

constexpr const char* kExamples = R"(Examples:
  echo '{"text": "Hello world"}' | optimus tokenize --tokenizer tokenizer.json
  optimus tokenize --tokenizer tokenizer.json texts.jsonl > ids.jsonl
  optimus tokenize --tokenizer tokenizer.json --decode ids.jsonl)";

struct TokenizeCommand {
  std::string tokenizer, file;
  bool decode = false;
};

Json answer(const TokenizeCommand& command, const Tokenizer& tokenizer, const std::string& line) {
  const JsonLine question(line);
  if (command.decode) return {{"text", tokenizer.decode(question.ids("ids", tokenizer.vocab_size()), false)}};
  std::vector<std::int32_t> ids;
  tokenizer.encode(question.text("text"), ids);
  return {{"ids", std::move(ids)}};
}

ExitCode run(const TokenizeCommand& command) {
  const auto tokenizer = make_tokenizer(command.tokenizer);
  const auto compression = command.file.ends_with(".gz") ? Compression::kGzip : command.file.ends_with(".zst") ? Compression::kZstd : Compression::kNone;
  const auto stream = open_byte_stream(command.file.empty() ? "/dev/stdin" : command.file, compression);
  const std::string name = command.file.empty() ? "standard input" : command.file;
  Index line_number = 0;
  const auto one_line = [&](const std::string& line) {
    ++line_number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) return;
    try {
      std::cout << answer(command, *tokenizer, line).dump() << '\n';
    } catch (const DataError& error) {
      throw DataError(
          fmt::format("[tokenize] {}:{}: {}; a line is {}", name, line_number, error.what(), command.decode ? R"({"ids": [...]})" : R"({"text": ...})"));
    }
  };
  for_each_line(*stream, one_line);
  std::cout.flush();
  if (!std::cout) throw FileError("[tokenize] cannot write to standard output");
  return ExitCode::kDone;
}

}  // namespace

void add_tokenize_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("tokenize", "Turn texts into token ids, or ids into texts");
  const auto options = std::make_shared<TokenizeCommand>();
  command->add_option("--tokenizer", options->tokenizer, "bytes or a Hugging Face tokenizer.json (byte-level BPE)")->required()->type_name("bytes|FILE");
  command->add_flag("--decode", options->decode, R"(Read {"ids": [...]}, write {"text": ...}; special tokens are kept)");
  command->add_option("FILE", options->file, R"(JSON lines with "text" (or "ids"), also .gz or .zst; standard input if absent)")->type_name("");
  command->footer(kExamples);
  command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace optimus
