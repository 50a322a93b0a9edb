#pragma once
// One function a command: adds the subcommand with its options and examples, and on parsing sets the action that main then runs.

#include <functional>

#include "optimus/base/error.hpp"

namespace CLI {
class App;
}

namespace optimus {

/// What a parsed command does. Throws Error; main prints it and ends with its code.
using Action = std::function<ExitCode()>;

void add_prepare_command(CLI::App& app, Action& action);
void add_tokenize_command(CLI::App& app, Action& action);
void add_dataset_command(CLI::App& app, Action& action);
void add_pretrain_command(CLI::App& app, Action& action);
void add_launch_command(CLI::App& app, Action& action);
void add_launch_node_command(CLI::App& app, Action& action);
void add_plan_command(CLI::App& app, Action& action);
void add_checkpoint_command(CLI::App& app, Action& action);
void add_convert_command(CLI::App& app, Action& action);
void add_eval_command(CLI::App& app, Action& action);
void add_generate_command(CLI::App& app, Action& action);
void add_loss_command(CLI::App& app, Action& action);
void add_bench_command(CLI::App& app, Action& action);
void add_version_command(CLI::App& app, Action& action);
void add_config_docs_command(CLI::App& app, Action& action);

}  // namespace optimus
