// The program: parses the command line, runs one command, turns what it throws into a message and an exit code.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <iostream>
#include <system_error>

#include "apps/optimus/commands.hpp"
#include "optimus/base/user_message.hpp"
#include "optimus/config/suggest.hpp"

namespace optimus {
namespace {

void add_commands(CLI::App& app, Action& action) {
  add_prepare_command(app, action);
  add_tokenize_command(app, action);
  add_dataset_command(app, action);
  add_pretrain_command(app, action);
  add_launch_command(app, action);
  add_launch_node_command(app, action);
  add_plan_command(app, action);
  add_eval_command(app, action);
  add_generate_command(app, action);
  add_loss_command(app, action);
  add_checkpoint_command(app, action);
  add_convert_command(app, action);
  add_bench_command(app, action);
  add_config_docs_command(app, action);
  add_version_command(app, action);
}

/// CLI11 only says that a command is missing, not which word is none.
void check_command_names(const CLI::App& app, int argc, char** argv) {
  const CLI::App* parent = &app;
  for (int i = 1; i < argc && argv[i][0] != '-'; ++i) {
    std::vector<std::string> names;
    const CLI::App* command = nullptr;
    for (const CLI::App* candidate : parent->get_subcommands([](const CLI::App*) { return true; })) {
      names.push_back(candidate->get_name());
      if (candidate->get_name() == argv[i]) command = candidate;
    }
    if (names.empty()) return;
    if (command == nullptr) {
      throw ConfigError(fmt::format("there is no command \"{}\"; the nearest is \"{}\", {} --help lists all", argv[i], nearest_key(argv[i], names),
                                    parent == &app ? "optimus" : "optimus " + parent->get_name()));
    }
    parent = command;
  }
}

/// Results that did not reach their file are a failure, however quietly the stream takes it.
void flush_results() {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good()) return;
  throw FileError(fmt::format("[optimus] cannot write to standard output: {}", std::generic_category().message(errno)));
}

int run(int argc, char** argv) {
  CLI::App app(
      "Pretrains mixture-of-experts language models.\n\nFirst steps:\n  optimus prepare --out data/corpus --tokenizer bytes --sequence-length 256 corpus.txt\n "
      " optimus pretrain configs/quickstart.toml --set data.path=data/corpus",
      "optimus");
  app.require_subcommand(1);
  app.set_version_flag("--version", OPTIMUS_VERSION);
  Action action;
  add_commands(app, action);
  check_command_names(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool is_help = error.get_exit_code() == 0;
    (void)app.exit(error);  // prints help or the mistake
    return static_cast<int>(is_help ? ExitCode::kDone : ExitCode::kConfig);
  }
  const ExitCode code = action();
  flush_results();
  return static_cast<int>(code);
}

}  // namespace
}  // namespace optimus

int main(int argc, char** argv) {
  try {
    return optimus::run(argc, argv);
  } catch (const optimus::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", optimus::user_message(error).c_str());
  }
  return static_cast<int>(optimus::ExitCode::kFailure);
}
