// optimus pretrain: trains, or says what training would take.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "apps/optimus/commands.hpp"
#include "apps/optimus/number_checks.hpp"
#include "apps/optimus/ranks.hpp"
#include "optimus/backend/cpu/cpu_backend.hpp"
#include "optimus/base/counted.hpp"
#include "optimus/base/log.hpp"
#include "optimus/comm/agree_on.hpp"
#include "optimus/train/dry_run.hpp"
#include "optimus/train/trainer.hpp"

namespace optimus {
namespace {

constexpr Index kMostRanks = Index{1} << 31;  // MPI numbers ranks by int

struct PretrainArguments {
  std::string config, resume;
  std::vector<std::string> overrides;
  bool is_dry_run = false, is_json = false;
  Index world = 0;
};

/// --resume is an override like others; it comes last.
std::vector<std::string> all_overrides(const PretrainArguments& a) {
  std::vector<std::string> overrides = a.overrides;
  if (!a.resume.empty()) overrides.push_back("run.resume=" + a.resume);
  return overrides;
}

ExitCode dry_run(const PretrainArguments& a, Index ranks) {
  const Index world = a.world > 0 ? a.world : ranks;
  const RunConfig config = load_run_config(a.config, all_overrides(a), {.ranks = world, .needs_data = false});
  const DryRun plan = plan_run(config, world);
  std::fputs((a.is_json ? dry_run_json(plan) : dry_run_text(plan, config)).c_str(), stdout);
  return ExitCode::kDone;
}

/// Arithmetic peak of all ranks together, measured on all at the same time.
double peak_of_all(Communicator& world, const RunConfig& config, int threads) {
  double peak = measure_peak(parse_precision(config.precision.weights), threads);
  world.all_reduce(View(reinterpret_cast<std::byte*>(&peak), DType::kF64, {1}), Reduce::kSum);
  return peak;
}

ExitCode pretrain(const PretrainArguments& a, const Ranks& ranks) {
  Communicator& world = ranks.world;
  if (a.is_dry_run) return world.rank() == 0 ? dry_run(a, world.size()) : ExitCode::kDone;
  RunConfig config;
  agree(world, [&] { config = load_run_config(a.config, all_overrides(a), {.ranks = world.size()}); });
  agree_on(world, "configuration", dump_run_config(config));
  ranks.set_time_limit(config.fault_tolerance.watchdog_s);
  const int threads = choose_threads(world);
  const auto backend = make_cpu_backend(threads);
  if (world.rank() == 0) log_info("{}{} on {}", counted(world.size(), "rank"), world.size() > 1 ? ", each" : "", backend->description());
  Trainer trainer(config, world, *backend, peak_of_all(world, config, threads));
  return trainer.run();
}

}  // namespace

void add_pretrain_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("pretrain", "Train a model as a configuration file says; alone or under an MPI starter");
  command->footer(
      "Examples:\n"
      "  optimus pretrain configs/quickstart.toml\n"
      "  mpirun -n 2 optimus pretrain configs/quickstart.toml --set run.steps=500 --set optimizer.lr=1e-3\n"
      "  optimus pretrain configs/mula-220b-a10b.toml --dry-run --world 12288 --json");
  auto a = std::make_shared<PretrainArguments>();
  command->add_option("config", a->config, "TOML file (docs/config.md lists its keys)")->required()->type_name("CONFIG.toml");
  command->add_option("--set", a->overrides, "Override a key; the value is TOML, or a string if it is not")
      ->type_name("key.path=value")
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--resume", a->resume, "As run.resume: auto, never, or a checkpoint folder")->check(not_empty())->type_name("auto|never|DIR");
  auto* dry = command->add_flag("--dry-run", a->is_dry_run, "Print sizes, memory and layout; read no data, make no folder");
  command->add_option("--world", a->world, "Of --dry-run: number of ranks to plan for")->check(whole_number(1, kMostRanks))->type_name("N")->needs(dry);
  command->add_flag("--json", a->is_json, "Of --dry-run: print one JSON object")->needs(dry);
  command->callback([&action, a] {
    action = [a] { return run_on_ranks(a->is_dry_run ? "pretrain --dry-run" : "pretrain", [a](const Ranks& ranks) { return pretrain(*a, ranks); }); };
  });
}

}  // namespace optimus
