// optimus plan: what a run would take, and the order of work in its pipeline. Reads a configuration, nothing else.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/optimus/commands.hpp"
#include "apps/optimus/number_checks.hpp"
#include "apps/optimus/ranks.hpp"
#include "optimus/base/counted.hpp"
#include "optimus/model/stage.hpp"
#include "optimus/pipeline/draw.hpp"
#include "optimus/train/dry_run.hpp"
#include "optimus/train/stage_model.hpp"

namespace optimus {
namespace {

using pipeline::ActionKind;
using pipeline::Schedule;
using pipeline::Simulation;
using pipeline::StageTimes;

constexpr Index kMostRanks = Index{1} << 31;  // MPI numbers ranks by int

struct PlanArguments {
  std::string config, times = "1,1,1";
  std::vector<std::string> overrides;
  Index world = 0;
  bool is_schedule = false, is_json = false;
};

/// Of "F,B,W".
StageTimes parse_times(const std::string& text) {
  double values[3] = {};
  const char* at = text.data();
  const char* const end = at + text.size();
  bool is_good = true;
  for (double& value : values) {
    if (&value != values) {
      is_good = is_good && at != end && *at == ',';
      if (is_good) ++at;
    }
    const auto [next, code] = std::from_chars(at, end, value);
    is_good = is_good && code == std::errc{} && std::isfinite(value) && value >= 0;
    at = next;
  }
  if (!is_good || at != end || values[0] + values[1] + values[2] <= 0)
    throw ConfigError(fmt::format("[plan] --times is three numbers F,B,W, 0 or more and not all 0, not \"{}\"", text));
  return {.forward = values[0], .backward_input = values[1], .backward_weight = values[2]};
}

std::vector<Index> slots_of(const Schedule& schedule, Index stage) {
  std::vector<Index> slots;
  for (Index chunk = 0; chunk < schedule.virtual_stages; ++chunk) slots.push_back(schedule.slots(stage, chunk));
  return slots;
}

/// Layers of each chunk of a stage.
std::vector<Index> layers_of(const RunConfig& config, Index stage) {
  std::vector<Index> layers;
  for (const LayerRange& range : stage_chunks(config.shape, config.parallel, stage)) layers.push_back(range.count());
  return layers;
}

std::string schedule_text(const RunConfig& config, const Schedule& schedule, const StageTimes& times) {
  const Simulation simulation = simulate(schedule, times);
  std::string text = fmt::format("{}: {}, {} of layers on each, {}\n\n{}\n", schedule.name, counted(schedule.stages, "stage"),
                                 counted(schedule.virtual_stages, "chunk"), counted(schedule.micro_batches, "micro-batch"), draw(schedule, times));
  text += fmt::format("bubble  {:.4f} of the time, if every chunk takes F {:g}, B {:g}, W {:g}; {:g} in all\n\n", simulation.bubble_fraction, times.forward,
                      times.backward_input, times.backward_weight, simulation.total);
  text += fmt::format("{:<8}{:<16}{:<24}{}\n", "stage", "layers", "activations at most", "activation slots");
  for (Index stage = 0; stage < schedule.stages; ++stage)
    text += fmt::format("{:<8}{:<16}{:<24}{}\n", stage, fmt::join(layers_of(config, stage), " + "), schedule.peak_activations(stage),
                        fmt::join(slots_of(schedule, stage), " + "));
  return text;
}

const char* kind_name(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward: return "forward";
    case ActionKind::kBackward: return "backward";
    case ActionKind::kBackwardInput: return "backward_input";
    case ActionKind::kBackwardWeight: return "backward_weight";
  }
  return "?";
}

std::string schedule_json(const RunConfig& config, const Schedule& schedule, const StageTimes& times) {
  const Simulation simulation = simulate(schedule, times);
  nlohmann::ordered_json json = {{"schedule", schedule.name},
                                 {"stages", schedule.stages},
                                 {"virtual_stages", schedule.virtual_stages},
                                 {"micro_batches", schedule.micro_batches},
                                 {"times", {{"forward", times.forward}, {"backward_input", times.backward_input}, {"backward_weight", times.backward_weight}}},
                                 {"total", simulation.total},
                                 {"bubble_fraction", simulation.bubble_fraction},
                                 {"per_stage", nlohmann::ordered_json::array()}};
  for (Index stage = 0; stage < schedule.stages; ++stage) {
    const auto s = static_cast<std::size_t>(stage);
    auto actions = nlohmann::ordered_json::array();
    for (std::size_t i = 0; i < schedule.actions[s].size(); ++i) {
      const pipeline::Action& a = schedule.actions[s][i];
      const pipeline::Span span = simulation.spans[s][i];
      actions.push_back(
          {{"kind", kind_name(a.kind)}, {"chunk", a.chunk}, {"micro_batch", a.micro_batch}, {"slot", a.slot}, {"start", span.start}, {"end", span.end}});
    }
    json["per_stage"].push_back({{"layers", layers_of(config, stage)},
                                 {"activation_slots", slots_of(schedule, stage)},
                                 {"peak_activations", schedule.peak_activations(stage)},
                                 {"actions", actions}});
  }
  return json.dump() + "\n";
}

ExitCode plan(const PlanArguments& a, Index ranks) {
  const Index world = a.world > 0 ? a.world : ranks;
  const StageTimes times = parse_times(a.times);
  const RunConfig config = load_run_config(a.config, a.overrides, {.ranks = world, .needs_data = false});
  std::string text;
  if (a.is_schedule) {
    const Schedule schedule = StagePlan(config, Mesh(config.parallel, world), 0).schedule;
    validate(schedule);
    text = a.is_json ? schedule_json(config, schedule, times) : schedule_text(config, schedule, times);
  } else {
    const DryRun run = plan_run(config, world);
    text = a.is_json ? dry_run_json(run) : dry_run_text(run, config);
  }
  std::fputs(text.c_str(), stdout);
  return ExitCode::kDone;
}

}  // namespace

void add_plan_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("plan", "What a run would take: memory, arithmetic, layout; or the order of work in its pipeline");
  command->footer(
      "Examples:\n"
      "  optimus plan configs/mula-220b-a10b.toml --world 12288\n"
      "  optimus plan configs/mula-100b-a7b.toml --world 12288 --schedule\n"
      "  optimus plan configs/mula-100b-a7b.toml --world 12288 --schedule --times 1,1.2,0.8 --set parallel.pipeline_schedule=zero_bubble\n"
      "In the picture F is a forward, B a backward or its input part, W its weight part, with the number of the micro-batch; a letter behind it is the chunk.");
  auto a = std::make_shared<PlanArguments>();
  command->add_option("config", a->config, "TOML file (docs/config.md lists its keys)")->required()->type_name("CONFIG.toml");
  command->add_option("--set", a->overrides, "Override a key; the value is TOML, or a string if it is not")
      ->type_name("key.path=value")
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--world", a->world, "Number of ranks to plan for; those there are, if not given")->check(whole_number(1, kMostRanks))->type_name("N");
  auto* schedule = command->add_flag("--schedule", a->is_schedule, "Draw the pipeline schedule, with its bubble and the activations each stage holds");
  command
      ->add_option("--times", a->times, "Of --schedule: time of a micro-batch through a chunk, forward, input part and weight part of the backward; any unit")
      ->type_name("F,B,W")
      ->capture_default_str()
      ->needs(schedule);
  command->add_flag("--json", a->is_json, "Print one JSON object");
  command->callback([&action, a] {
    action = [a] { return run_on_ranks("plan", [a](const Ranks& ranks) { return ranks.world.rank() == 0 ? plan(*a, ranks.world.size()) : ExitCode::kDone; }); };
  });
}

}  // namespace optimus
