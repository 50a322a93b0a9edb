// optimus version

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "apps/optimus/commands.hpp"

namespace optimus {

void add_version_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("version", "Version and build of this program");
  command->footer("Examples:\n  optimus version\n  optimus version --json");
  auto is_json = std::make_shared<bool>(false);
  command->add_flag("--json", *is_json, "Print one JSON object");
  command->callback([&action, is_json] {
    action = [is_json] {
      if (*is_json)
        fmt::print("{{\"version\": \"{}\", \"compiler\": \"{}\", \"build_type\": \"{}\"}}\n", OPTIMUS_VERSION, OPTIMUS_COMPILER, OPTIMUS_BUILD_TYPE);
      else fmt::print("optimus {} ({}, {})\n", OPTIMUS_VERSION, OPTIMUS_COMPILER, OPTIMUS_BUILD_TYPE);
      return ExitCode::kDone;
    };
  });
}

}  // namespace optimus
