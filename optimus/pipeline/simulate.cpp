#include "optimus/pipeline/simulate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "optimus/pipeline/route.hpp"

namespace optimus::pipeline {
namespace {

constexpr double kNotSent = -1;

double duration(ActionKind kind, const StageTimes& t) {
  switch (kind) {
    case ActionKind::kForward: return t.forward;
    case ActionKind::kBackward: return t.backward_input + t.backward_weight;
    case ActionKind::kBackwardInput: return t.backward_input;
    case ActionKind::kBackwardWeight: return t.backward_weight;
  }
  return 0;
}

void check_times(const StageTimes& t) {
  for (const double time : {t.forward, t.backward_input, t.backward_weight, t.transfer})
    if (!std::isfinite(time) || time < 0) throw ConfigError(fmt::format("[pipeline] a stage cannot take a time of {}; it must be 0 or more", time));
}

}  // namespace

Simulation simulate(const Schedule& s, const StageTimes& times) {
  check_times(times);
  Simulation result;
  result.spans.resize(s.actions.size());
  std::vector<double> arrival(message_ids(s), kNotSent);
  std::vector<double> free_at(s.actions.size(), 0);
  double busy = 0;
  const auto done = run_all(s, [&](std::size_t stage, std::size_t index) {
    const Action& action = s.actions[stage][index];
    const auto in = incoming(s, static_cast<Index>(stage), action), out = outgoing(s, static_cast<Index>(stage), action);
    if (in && arrival[in->id(s)] == kNotSent) return false;
    const double start = in ? std::max(free_at[stage], arrival[in->id(s)]) : free_at[stage], length = duration(action.kind, times);
    free_at[stage] = start + length;
    result.spans[stage].push_back({start, start + length});
    busy += length;
    if (out) arrival[out->id(s)] = start + length + (out->is_local() ? 0 : times.transfer);
    return true;
  });
  if (const auto stuck = stuck_stage(s, done)) throw InternalError(fmt::format("[pipeline] {}: stage {} deadlocks", s.name, *stuck));
  result.total = *std::max_element(free_at.begin(), free_at.end());
  if (busy <= 0) throw ConfigError("[pipeline] every action takes no time; at least one time of a stage must be more than 0");
  result.bubble_fraction = std::max(0.0, 1 - busy / (result.total * static_cast<double>(s.stages)));
  return result;
}

double bubble_formula(const Schedule& s, const StageTimes& t) {
  check_times(t);
  const auto ahead = static_cast<double>(s.stages - 1), M = static_cast<double>(s.micro_batches), V = static_cast<double>(s.virtual_stages);
  if (s.name == "gpipe" || s.name == "1f1b") return ahead / (M + ahead);
  if (s.name == "interleaved" || s.name == "forward") return ahead / (V * M + ahead);
  if (s.name != "zero_bubble") throw ConfigError(fmt::format("[pipeline] there is no schedule \"{}\" and so no formula of its bubble", s.name));
  const auto hidden = static_cast<double>(std::min(s.micro_batches, s.stages) - 1);
  const double bubble = ahead * (t.forward + t.backward_input) - hidden * t.backward_weight;
  return bubble / (M * (t.forward + t.backward_input + t.backward_weight) + bubble);
}

}  // namespace optimus::pipeline
