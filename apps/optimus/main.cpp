// The program: parses the command line, runs one command, turns what it throws into a message and an exit code.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "apps/optimus/commands.hpp"

namespace optimus {
namespace {

void add_commands(CLI::App& app, Action& action) {
  add_prepare_command(app, action);
  add_tokenize_command(app, action);
  add_dataset_command(app, action);
  add_pretrain_command(app, action);
  add_eval_command(app, action);
  add_generate_command(app, action);
  add_loss_command(app, action);
  add_checkpoint_command(app, action);
  add_convert_command(app, action);
  add_bench_command(app, action);
  add_config_docs_command(app, action);
  add_version_command(app, action);
}

int run(int argc, char** argv) {
  CLI::App app(
      "Pretrains mixture-of-experts language models.\n\nFirst steps:\n  optimus prepare --out data/corpus --tokenizer bytes --sequence-length 256 corpus.txt\n "
      " optimus pretrain configs/quickstart.toml",
      "optimus");
  app.require_subcommand(1);
  app.set_version_flag("--version", OPTIMUS_VERSION);
  Action action;
  add_commands(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool is_help = error.get_exit_code() == 0;
    (void)app.exit(error);  // prints help or the mistake
    return static_cast<int>(is_help ? ExitCode::kDone : ExitCode::kConfig);
  }
  return static_cast<int>(action());
}

}  // namespace
}  // namespace optimus

int main(int argc, char** argv) {
  try {
    return optimus::run(argc, argv);
  } catch (const optimus::Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::bad_alloc&) {
    std::fputs("error: out of memory\n", stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
  }
  return static_cast<int>(optimus::ExitCode::kFailure);
}
