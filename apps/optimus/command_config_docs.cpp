// optimus config-docs: the reference of all configuration keys, as docs/config.md holds it.

#include <CLI/CLI.hpp>
#include <cstdio>

#include "apps/optimus/commands.hpp"
#include "optimus/train/config_docs.hpp"

namespace optimus {

void add_config_docs_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("config-docs", "Print the reference of all configuration keys as Markdown");
  command->footer("Example:\n  optimus config-docs > docs/config.md");
  command->callback([&action] {
    action = [] {
      std::fputs(config_reference().c_str(), stdout);
      return ExitCode::kDone;
    };
  });
}

}  // namespace optimus
