#pragma once
// Who sends what to whom: the messages that follow from a schedule, and the walk through all stages that respects them. Private to this folder.

#include <optional>
#include <vector>

#include "optimus/pipeline/schedule.hpp"

namespace optimus::pipeline {

enum class Direction { kForward, kBackward };

/// One message.
struct Route {
  Direction direction = Direction::kForward;
  Index from = 0, to = 0;  ///< stages
  Index chunk = 0;         ///< of the model, the receiving one
  Index micro_batch = 0;
  [[nodiscard]] bool is_local() const { return from == to; }
  /// 0 … message_ids()-1, different for all messages of the schedule.
  [[nodiscard]] std::size_t id(const Schedule& s) const {
    return static_cast<std::size_t>(((direction == Direction::kBackward ? s.num_chunks() : 0) + chunk) * s.micro_batches + micro_batch);
  }
};
[[nodiscard]] inline std::size_t message_ids(const Schedule& s) { return static_cast<std::size_t>(2 * s.num_chunks() * s.micro_batches); }

/// The message an action waits for; none at the ends of the model and for weight parts.
[[nodiscard]] std::optional<Route> incoming(const Schedule& schedule, Index stage, const Action& action);
/// The message an action ends with.
[[nodiscard]] std::optional<Route> outgoing(const Schedule& schedule, Index stage, const Action& action);

/// A stage's messages of one direction, in the order in which its actions take and send them.
struct StageRoutes {
  std::vector<Route> receives, sends;
};
[[nodiscard]] StageRoutes stage_routes(const Schedule& schedule, Index stage, Direction direction);

/// Lets every stage run on as far as it can, until none can. `try_run(stage, action index)` says whether that action has run.
/// Returns how many actions of each stage have run.
template <class TryRun>
[[nodiscard]] std::vector<std::size_t> run_all(const Schedule& schedule, TryRun&& try_run) {
  std::vector<std::size_t> done(schedule.actions.size(), 0);
  for (bool has_moved = true; has_moved;) {
    has_moved = false;
    for (std::size_t stage = 0; stage < done.size(); ++stage) {
      while (done[stage] < schedule.actions[stage].size() && try_run(stage, done[stage])) {
        ++done[stage];
        has_moved = true;
      }
    }
  }
  return done;
}
/// The first stage that did not run all of its actions.
[[nodiscard]] std::optional<std::size_t> stuck_stage(const Schedule& schedule, const std::vector<std::size_t>& done);

}  // namespace optimus::pipeline
