// optimus launch-node: what the supervisor runs on each node. Not for people, so not in the help.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "apps/optimus/commands.hpp"
#include "apps/optimus/number_checks.hpp"
#include "optimus/base/counted.hpp"
#include "optimus/launch/marked.hpp"
#include "optimus/launch/node_report.hpp"

namespace optimus {
namespace {

struct NodeArguments {
  launch::NodeNeeds needs;
  std::string mark;
  int signal = 0;
};

ExitCode probe(const NodeArguments& a) {
  fmt::print("{}\n", launch::to_json(launch::examine_node(a.needs)));
  return ExitCode::kDone;
}

ExitCode clean(const NodeArguments& a) {
  Index left = 0;
  const Index killed = launch::kill_marked(a.mark, 5, left);
  fmt::print("{}\n", killed);
  if (left > 0) throw Error(fmt::format("[launch] {} cannot be ended", counted(left, "process")));
  return ExitCode::kDone;
}

ExitCode send_signal(const NodeArguments& a) {
  fmt::print("{}\n", launch::signal_marked(a.mark, a.signal));
  return ExitCode::kDone;
}

CLI::App* add(CLI::App* parent, const char* name, const char* help, Action& action, ExitCode (*run)(const NodeArguments&),
              const std::shared_ptr<NodeArguments>& a) {
  CLI::App* command = parent->add_subcommand(name, help);
  command->callback([&action, run, a] { action = [run, a] { return run(*a); }; });
  return command;
}

}  // namespace

void add_launch_node_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("launch-node", "What optimus launch runs on each node")->group("");
  command->require_subcommand(1);
  auto a = std::make_shared<NodeArguments>();
  CLI::App* examine = add(command, "probe", "Memory, disk and a self-test, as one JSON object", action, probe, a);
  examine->add_option("--dir", a->needs.run_dir, "The run folder")->required()->check(not_empty());
  examine->add_option("--mark", a->needs.mark, "Kill processes with this mark first")->check(not_empty());
  examine->add_option("--seconds", a->needs.self_test_s, "Of the self-test")->check(finite_number(0, 3600));
  CLI::App* cleaning = add(command, "clean", "Kill all processes of a run here; prints how many there were", action, clean, a);
  cleaning->add_option("--mark", a->mark, "Their mark")->required()->check(not_empty());
  CLI::App* sending = add(command, "signal", "Send a signal to all processes of a run here; prints how many got it", action, send_signal, a);
  sending->add_option("--mark", a->mark, "Their mark")->required()->check(not_empty());
  sending->add_option("--number", a->signal, "The signal; 0 only counts them")->required()->check(whole_number(0, 64));
}

}  // namespace optimus
