// optimus bench: speed as ratios to what the machine can do, measured in the same run.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "apps/optimus/commands.hpp"
#include "apps/optimus/ranks.hpp"
#include "optimus/backend/cpu/cpu_backend.hpp"
#include "optimus/train/step_bench.hpp"
#include "optimus/train/trainer.hpp"

namespace optimus {

void add_bench_command(CLI::App& app, Action& action) {
  CLI::App* bench = app.add_subcommand("bench", "Measure speed against the peak of this machine");
  bench->require_subcommand(1);
  CLI::App* command = bench->add_subcommand("step", "A whole optimizer step on made-up tokens");
  command->footer(
      "Examples:\n  optimus bench step --config small\n  optimus bench step --config mula-7b-l2 --json\n  optimus bench step --config configs/quickstart.toml");
  auto name = std::make_shared<std::string>("small");
  auto is_json = std::make_shared<bool>(false);
  command->add_option("--config", *name, "small, mula-7b-l2 (two layers of Mula-7B-A1B), or a TOML file")->capture_default_str();
  command->add_flag("--json", *is_json, "Print one JSON object");
  command->callback([&action, name, is_json] {
    action = [name, is_json] {
      return run_on_ranks("bench", [&](const Ranks& ranks) {
        const int threads = choose_threads(ranks.world);
        const auto backend = make_cpu_backend(threads);
        const StepBench result = bench_step(bench_config(*name, ranks.world.size()), ranks.world, *backend, threads);
        if (ranks.world.rank() == 0) std::fputs((*is_json ? bench_json(result) : bench_text(result)).c_str(), stdout);
        return ExitCode::kDone;
      });
    };
  });
}

}  // namespace optimus
