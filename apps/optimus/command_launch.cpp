// optimus launch: starts pretrain on all ranks and keeps it going.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "apps/optimus/commands.hpp"
#include "apps/optimus/number_checks.hpp"
#include "apps/optimus/ranks.hpp"
#include "optimus/base/counted.hpp"
#include "optimus/base/log.hpp"
#include "optimus/launch/process.hpp"
#include "optimus/launch/signals.hpp"
#include "optimus/launch/supervisor.hpp"
#include "optimus/train/dry_run.hpp"
#include "optimus/train/signals.hpp"
#include "optimus/train/stop_conditions.hpp"

namespace optimus {
namespace {

struct LaunchArguments {
  launch::WorldRequest world;
  std::string hostfile, starter, starter_options, agent;
  launch::PolicyOptions policy;
  double probe_limit_s = 60;
  std::vector<std::string> command;
};

/// What of pretrain's own command line the supervisor has to understand.
struct PretrainLine {
  std::string config, resume;
  std::vector<std::string> overrides;
};

/// Read by the very options of pretrain, so that both always agree on what is right.
PretrainLine parse_pretrain(std::vector<std::string> words) {
  if (words.empty() || words.front() != "pretrain")
    throw ConfigError(fmt::format("[launch] it starts \"pretrain\" only, not \"{}\"; write it as: optimus launch --ranks 4 -- pretrain CONFIG.toml",
                                  words.empty() ? "" : words.front()));
  CLI::App app;
  Action unused;
  add_pretrain_command(app, unused);
  std::reverse(words.begin(), words.end());
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    throw ConfigError(fmt::format("[launch] the command after --: {}", error.what()));
  }
  const CLI::App* pretrain = app.get_subcommand("pretrain");
  if (pretrain->count("--dry-run") > 0) throw ConfigError("[launch] a dry run needs no launch; write optimus pretrain CONFIG.toml --dry-run --world N");
  PretrainLine line{.config = pretrain->get_option("config")->as<std::string>()};
  if (pretrain->count("--set") > 0) line.overrides = pretrain->get_option("--set")->results();
  if (pretrain->count("--resume") > 0) line.overrides.push_back("run.resume=" + pretrain->get_option("--resume")->as<std::string>());
  return line;
}

std::optional<std::string> variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): nobody sets it while we run
  return value != nullptr && *value != '\0' ? std::optional<std::string>(value) : std::nullopt;
}

std::optional<std::string> ask_scontrol(const std::string& list) {
  const auto program = launch::find_program("scontrol");
  if (!program) return std::nullopt;
  const auto answer = launch::run_commands({{*program, "show", "hostnames", list}}, 30).front();
  return answer.code == 0 ? std::optional(answer.out) : std::nullopt;
}

std::vector<int> signals_of(const RunConfig& config) {
  std::vector<int> numbers;
  for (const std::string& name : config.fault_tolerance.save_on_signal)
    if (const auto number = parse_signal(name)) numbers.push_back(*number);
  return numbers;
}

/// What ranks have to know before they can read a configuration, and the end of the batch job in one form: starters do not take every variable to other nodes,
/// and PBS_WALLTIME counts from the job's start, which a restarted rank does not know.
std::vector<std::string> environment_of(const RunConfig& config) {
  std::vector<std::string> variables = {fmt::format("{}={}", kStartLimit, config.fault_tolerance.watchdog_s)};
  if (const auto end = job_end())
    variables.push_back(fmt::format("SLURM_JOB_END_TIME={}", std::chrono::duration_cast<std::chrono::seconds>(end->time_since_epoch()).count()));
  return variables;
}

launch::RunFacts facts_of(const RunConfig& config, Index ranks) {
  const DryRun plan = plan_run(config, ranks);
  const Index bytes_per_weight = config.precision.weights == "fp32" ? 4 : 2;
  return {.run_dir = std::filesystem::absolute(config.run.dir).lexically_normal().string(),
          .watchdog_s = config.fault_tolerance.watchdog_s,
          .save_signals = signals_of(config),
          .bytes_per_rank = plan.bytes_per_rank.sum(),
          .checkpoint_bytes = checked_mul(plan.parameters, bytes_per_weight + 12),  // and the fp32 master and two moments
          .environment = environment_of(config)};
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

launch::LaunchOptions options_of(const LaunchArguments& a, const std::string& self) {
  launch::LaunchOptions options{
      .starter_options = words_of(a.starter_options), .agent = {a.agent, self}, .starter_agent = a.agent, .probe_limit_s = a.probe_limit_s};
  std::string source;
  options.hosts = launch::find_hosts(a.hostfile, {variable, ask_scontrol}, source);
  options.world = launch::resolve_world(a.world, options.hosts);
  options.starter = launch::find_starter(a.starter, variable("SLURM_JOB_ID").has_value());
  if (options.starter.kind == launch::StarterKind::kOpenMpi && a.agent.find(' ') != std::string::npos)
    throw ConfigError(
        fmt::format("[launch] --agent \"{}\" has a space in its path, where Open MPI would end it; give it another name, or a link without one", a.agent));
  options.policy = a.policy;
  log_info("[launch] {} from {}; starter: {} ({})", counted(options.hosts.size(), "host"), source, options.starter.program, options.starter.version);
  return options;
}

/// "--resume never" and a folder are about the first start: once the run has saved, going on means from its own checkpoints.
std::vector<std::string> command_to_go_on(const std::vector<std::string>& command) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < command.size(); ++i) {
    if (command[i] == "--resume") ++i;  // and its value
    else if (!command[i].starts_with("--resume=")) words.push_back(command[i]);
  }
  words.insert(words.end(), {"--resume", "auto"});
  return words;
}

ExitCode run_launch(const LaunchArguments& a) {
  const PretrainLine line = parse_pretrain(a.command);
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  launch::LaunchOptions options = options_of(a, self);
  const RunConfig config = load_run_config(line.config, line.overrides, {.ranks = options.world.ranks()});
  launch::RunFacts facts = facts_of(config, options.world.ranks());
  facts.command = a.command;
  facts.command.insert(facts.command.begin(), self);
  facts.command_to_go_on = config.run.resume == "auto" ? facts.command : command_to_go_on(facts.command);
  options.policy.problem_with = [line](Index ranks) -> std::string {
    try {
      (void)load_run_config(line.config, line.overrides, {.ranks = ranks});
      return "";
    } catch (const ConfigError& error) {
      return error.what();
    }
  };
  const launch::LaunchEnd end = launch::supervise(facts, std::move(options));
  if (end.signal) launch::end_by_signal(*end.signal);
  return end.code;
}

void add_world_options(CLI::App* command, LaunchArguments& a) {
  constexpr Index kMost = Index{1} << 31;
  command->add_option("--ranks", a.world.ranks, "Ranks in all")->check(whole_number(1, kMost))->type_name("N");
  command->add_option("--hostfile", a.hostfile, "Hosts, one a line (\"node1 slots=4\"); else PBS_NODEFILE or SLURM_JOB_NODELIST, else this machine")
      ->check(not_empty())
      ->type_name("FILE");
  command->add_option("--nodes", a.world.nodes, "Hosts to use; the others are buffer nodes")->check(whole_number(1, kMost))->type_name("N");
  command->add_option("--ranks-per-node", a.world.ranks_per_node, "Ranks on each node")->check(whole_number(1, kMost))->type_name("M");
}

void add_policy_options(CLI::App* command, LaunchArguments& a) {
  command->add_option("--max-restarts", a.policy.max_restarts, "Restarts after failures, in all")
      ->check(whole_number(0))
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--restarts-per-hour", a.policy.restarts_per_hour, "Restarts within any hour")
      ->check(whole_number(0))
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--backoff", a.policy.first_delay_s, "Seconds before a restart; doubled for each further failure without progress, up to 300")
      ->check(finite_number(0, 300))
      ->type_name("S")
      ->capture_default_str();
  command->add_flag("--allow-shrink", a.policy.may_shrink, "Go on with fewer nodes, and the same global batch, when no buffer node is left");
}

void add_site_options(CLI::App* command, LaunchArguments& a) {
  command->add_option("--starter", a.starter, "mpirun, mpiexec, srun or a path; else srun inside a Slurm job, else the first found")
      ->check(not_empty())
      ->type_name("PROGRAM");
  command->add_option("--starter-options", a.starter_options, "More options for the starter, in one text")->type_name("TEXT");
  command->add_option("--agent", a.agent, "In place of ssh, called as: PROGRAM HOST COMMAND...")->check(not_empty())->type_name("PROGRAM");
  command->add_option("--probe-limit", a.probe_limit_s, "Seconds in which a node has to pass its examination")
      ->check(finite_number(1, 3600))
      ->type_name("S")
      ->capture_default_str();
}

}  // namespace

void add_launch_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("launch", "Start pretrain on many ranks and keep it going: replace nodes that fail, restart from the last checkpoint");
  command->footer(
      "Examples:\n"
      "  optimus launch --ranks 4 -- pretrain configs/quickstart.toml\n"
      "  optimus launch --hostfile hosts --nodes 16 --ranks-per-node 8 -- pretrain run.toml --set run.steps=50000\n"
      "  optimus launch --ranks 96 --ranks-per-node 12 --allow-shrink --max-restarts 20 -- pretrain run.toml\n"
      "docs/operations.md says what happens when.");
  auto a = std::make_shared<LaunchArguments>();
  add_world_options(command, *a);
  add_policy_options(command, *a);
  add_site_options(command, *a);
  command->add_option("command", a->command, "After --: pretrain CONFIG.toml and its options")->required()->type_name("pretrain CONFIG.toml ...");
  command->callback([&action, a] { action = [a] { return run_launch(*a); }; });
}

}  // namespace optimus
