#include "optimus/pipeline/schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "optimus/base/counted.hpp"

namespace optimus::pipeline {
namespace {

using Actions = std::vector<Action>;
using Kind = ActionKind;

Actions gpipe_stage(Index M) {
  Actions actions;
  for (Index m = 0; m < M; ++m) actions.push_back({Kind::kForward, 0, m});
  for (Index m = 0; m < M; ++m) actions.push_back({Kind::kBackward, 0, m});
  return actions;
}

Actions one_forward_one_backward_stage(Index P, Index M, Index p) {
  Actions actions;
  const Index ahead = std::min(M, P - 1 - p);
  for (Index m = 0; m < ahead; ++m) actions.push_back({Kind::kForward, 0, m});
  for (Index m = 0; m < M; ++m) {
    if (ahead + m < M) actions.push_back({Kind::kForward, 0, ahead + m});
    actions.push_back({Kind::kBackward, 0, m});
  }
  return actions;
}

/// Weight parts stay p micro-batches behind: as many more activations as the stage has fewer under way than the first one. They fill the gaps at the end.
Actions zero_bubble_stage(Index P, Index M, Index p) {
  Actions actions;
  for (const Action& action : one_forward_one_backward_stage(P, M, p)) {
    if (action.kind == Kind::kForward) {
      actions.push_back(action);
      continue;
    }
    actions.push_back({Kind::kBackwardInput, 0, action.micro_batch});
    if (action.micro_batch >= p) actions.push_back({Kind::kBackwardWeight, 0, action.micro_batch - p});
  }
  for (Index m = std::max<Index>(0, M - p); m < M; ++m) actions.push_back({Kind::kBackwardWeight, 0, m});
  return actions;
}

/// Forwards take P micro-batches through chunk 0, the same ones through chunk 1, …; backwards the same from the last chunk down.
Actions interleaved_stage(Index P, Index V, Index M, Index p) {
  const auto nth = [&](Kind kind, Index n) {
    const Index chunk = n % (P * V) / P;
    return Action{kind, kind == Kind::kForward ? chunk : V - 1 - chunk, n / (P * V) * P + n % P};
  };
  Actions actions;
  const Index total = M * V, ahead = std::min(total, 2 * (P - 1 - p) + (V - 1) * P);
  for (Index n = 0; n < ahead; ++n) actions.push_back(nth(Kind::kForward, n));
  for (Index n = 0; n < total; ++n) {
    if (ahead + n < total) actions.push_back(nth(Kind::kForward, ahead + n));
    actions.push_back(nth(Kind::kBackward, n));
  }
  return actions;
}

Actions forward_stage(Index P, Index V, Index M) {
  Actions actions;
  for (Index begin = 0; begin < M; begin += P)
    for (Index chunk = 0; chunk < V; ++chunk)
      for (Index m = begin; m < std::min(M, begin + P); ++m) actions.push_back({Kind::kForward, chunk, m});
  return actions;
}

bool frees_slot(Kind kind, bool is_forward_only) { return kind == Kind::kBackward || kind == Kind::kBackwardWeight || is_forward_only; }

void assign_slots(Actions& actions, const Schedule& s) {
  constexpr Index kFree = -1;
  std::vector<std::vector<Index>> holders(static_cast<std::size_t>(s.virtual_stages));  // [chunk][slot]: micro-batch
  for (Action& action : actions) {
    auto& slots = holders[static_cast<std::size_t>(action.chunk)];
    const bool is_new = action.kind == Kind::kForward;
    auto slot = std::find(slots.begin(), slots.end(), is_new ? kFree : action.micro_batch);
    if (slot == slots.end()) slot = slots.insert(slots.end(), kFree);
    action.slot = slot - slots.begin();
    *slot = frees_slot(action.kind, s.is_forward_only()) ? kFree : action.micro_batch;
  }
}

void check_request(const ScheduleRequest& r) {
  if (r.stages < 1 || r.virtual_stages < 1 || r.micro_batches < 1)
    throw ConfigError(fmt::format("[pipeline] {}, {}, {}; at least 1 of each is needed", counted(r.stages, "stage"), counted(r.virtual_stages, "virtual stage"),
                                  counted(r.micro_batches, "micro-batch")));
  if (r.virtual_stages > 1 && r.name != "interleaved" && r.name != "forward")
    throw ConfigError(fmt::format("[pipeline] {} virtual stages need the schedule \"interleaved\", not \"{}\"", r.virtual_stages, r.name));
  if (r.name == "interleaved" && r.micro_batches % r.stages != 0)
    throw ConfigError(
        fmt::format("[pipeline] the schedule \"interleaved\" needs a multiple of the stages: {} on {}; change batch.global_batch "
                    "or batch.micro_batch, or use another parallel.pipeline_schedule",
                    counted(r.micro_batches, "micro-batch"), counted(r.stages, "stage")));
  // Every action is in memory.
  Index passes = 0;
  const bool is_absurd = __builtin_mul_overflow(r.stages, r.virtual_stages, &passes) || __builtin_mul_overflow(passes, r.micro_batches, &passes);
  if (is_absurd || passes > Index{1} << 28)
    throw ConfigError(fmt::format("[pipeline] {} × {} × {} are more than a schedule can list; use larger micro-batches", counted(r.stages, "stage"),
                                  counted(r.virtual_stages, "virtual stage"), counted(r.micro_batches, "micro-batch")));
}

Actions build_stage(const ScheduleRequest& r, Index stage) {
  if (r.name == "gpipe") return gpipe_stage(r.micro_batches);
  if (r.name == "1f1b") return one_forward_one_backward_stage(r.stages, r.micro_batches, stage);
  if (r.name == "zero_bubble") return zero_bubble_stage(r.stages, r.micro_batches, stage);
  if (r.name == "forward") return forward_stage(r.stages, r.virtual_stages, r.micro_batches);
  if (r.name != "interleaved")
    throw ConfigError(fmt::format("[pipeline] there is no schedule \"{}\"; there are gpipe, 1f1b, interleaved, zero_bubble and forward", r.name));
  if (r.virtual_stages == 1) return one_forward_one_backward_stage(r.stages, r.micro_batches, stage);
  return interleaved_stage(r.stages, r.virtual_stages, r.micro_batches, stage);
}

}  // namespace

Schedule build_schedule(const ScheduleRequest& request) {
  check_request(request);
  Schedule schedule{request.name, request.stages, request.virtual_stages, request.micro_batches, {}};
  for (Index stage = 0; stage < request.stages; ++stage) {
    schedule.actions.push_back(build_stage(request, stage));
    assign_slots(schedule.actions.back(), schedule);
  }
  return schedule;
}

bool Schedule::splits_backward() const {
  return std::ranges::any_of(actions.front(), [](const Action& action) { return action.kind == ActionKind::kBackwardWeight; });
}

Index Schedule::slots(Index stage, Index chunk) const {
  Index count = 0;
  for (const Action& action : actions.at(static_cast<std::size_t>(stage)))
    if (action.chunk == chunk) count = std::max(count, action.slot + 1);
  return count;
}

Index Schedule::peak_activations(Index stage) const {
  Index held = 0, peak = 0;
  for (const Action& action : actions.at(static_cast<std::size_t>(stage))) {
    if (action.kind == Kind::kForward) peak = std::max(peak, ++held);
    if (frees_slot(action.kind, is_forward_only())) --held;
  }
  return peak;
}

Index activation_bound(const Schedule& s, Index stage) {
  const Index P = s.stages, V = s.virtual_stages, M = s.micro_batches;
  if (s.name == "gpipe") return M;
  if (s.name == "1f1b" || (s.name == "interleaved" && V == 1)) return std::min(M, P - stage);
  if (s.name == "interleaved") return std::min(M * V, 2 * (P - 1 - stage) + (V - 1) * P + 1);
  if (s.name == "zero_bubble") return std::min(M, P);
  if (s.name == "forward") return 1;
  throw ConfigError(fmt::format("[pipeline] there is no schedule \"{}\" and so no bound of its activations", s.name));
}

std::string label(const Action& action, Index virtual_stages) {
  const char letter = action.kind == Kind::kForward ? 'F' : action.kind == Kind::kBackwardWeight ? 'W' : 'B';
  std::string text = fmt::format("{}{}", letter, action.micro_batch);
  if (virtual_stages > 26) return text + fmt::format(".{}", action.chunk);
  if (virtual_stages > 1) text += static_cast<char>('a' + action.chunk);
  return text;
}

std::string print(const Schedule& schedule) {
  std::string text;
  for (std::size_t stage = 0; stage < schedule.actions.size(); ++stage) {
    text += fmt::format("stage {}:", stage);
    for (const Action& action : schedule.actions[stage]) text += fmt::format(" {}", label(action, schedule.virtual_stages));
    text += "\n";
  }
  return text;
}

}  // namespace optimus::pipeline
