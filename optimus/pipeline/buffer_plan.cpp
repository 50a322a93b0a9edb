#include "optimus/pipeline/buffer_plan.hpp"

#include <algorithm>

#include "optimus/base/check.hpp"
#include "optimus/pipeline/simulate.hpp"

namespace optimus::pipeline {
namespace {

constexpr Index kSendsWithOverlap = 2;  // one is filled while the other is under way
constexpr Index kReceivesWithOverlap = 2;

/// When each message is there, and when it has been used.
struct MessageTimes {
  std::vector<double> there, used;  ///< [message id]
};

MessageTimes message_times(const Schedule& s) {
  const Simulation simulation = simulate(s, {});
  MessageTimes times{std::vector<double>(message_ids(s)), std::vector<double>(message_ids(s))};
  for (std::size_t stage = 0; stage < s.actions.size(); ++stage)
    for (std::size_t i = 0; i < s.actions[stage].size(); ++i) {
      const auto in = incoming(s, static_cast<Index>(stage), s.actions[stage][i]), out = outgoing(s, static_cast<Index>(stage), s.actions[stage][i]);
      const Span span = simulation.spans[stage][i];
      // Within a stage the message is written where it will be read: its memory is taken from the start.
      if (out) times.there[out->id(s)] = out->is_local() ? span.start : span.end;
      if (in) times.used[in->id(s)] = span.end;
    }
  return times;
}

/// Largest number of messages from the oldest in use to the newest that is there.
Index most_at_once(const Schedule& s, const std::vector<Route>& receives, const MessageTimes& times) {
  std::vector<double> used;
  for (const Route& route : receives) used.push_back(times.used[route.id(s)]);
  Index most = 0;
  for (std::size_t n = 0; n < receives.size(); ++n) {
    const auto num_used = std::upper_bound(used.begin(), used.end(), times.there[receives[n].id(s)]) - used.begin();
    most = std::max(most, static_cast<Index>(n) + 1 - static_cast<Index>(num_used));
  }
  return most;
}

/// Runs the schedule with sends that are done only when their receive is posted, and receives posted only as far ahead as there are buffers.
class Rehearsal {
 public:
  Rehearsal(const Schedule& schedule, const std::vector<StageBuffers>& buffers, bool overlap)
      : s_(schedule), buffers_(buffers), overlap_(overlap), is_sent_(message_ids(schedule), 0), order_(message_ids(schedule), 0), stages_(buffers.size()) {
    for (Index stage = 0; stage < s_.stages; ++stage)
      for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
        Index n = 0;
        for (const Route& route : stage_routes(s_, stage, direction).receives) order_[route.id(s_)] = n++;
      }
  }

  [[nodiscard]] bool ends() {
    return !stuck_stage(s_, run_all(s_, [&](std::size_t stage, std::size_t index) { return try_run(stage, index); }));
  }

 private:
  struct Stage {
    Index num_used[2] = {0, 0};       ///< [direction]
    std::vector<Route> sent[2];       ///< [direction]
    std::optional<Route> waited_for;  ///< without overlap: the send that has to be done first
  };

  [[nodiscard]] bool is_posted(const Route& route) const {
    const auto stage = static_cast<std::size_t>(route.to);
    return order_[route.id(s_)] < stages_[stage].num_used[static_cast<int>(route.direction)] + buffers_[stage].of(route.direction).receives;
  }
  [[nodiscard]] bool has_send_buffer(std::size_t stage, const Route& out) const {
    const auto& sent = stages_[stage].sent[static_cast<int>(out.direction)];
    const auto count = static_cast<std::size_t>(buffers_[stage].of(out.direction).sends);
    return sent.size() < count || is_posted(sent[sent.size() - count]);
  }
  bool try_run(std::size_t stage, std::size_t index) {
    const Action& action = s_.actions[stage][index];
    Stage& own = stages_[stage];
    if (!overlap_ && own.waited_for && !is_posted(*own.waited_for)) return false;
    const auto in = incoming(s_, static_cast<Index>(stage), action), out = outgoing(s_, static_cast<Index>(stage), action);
    if (in && is_sent_[in->id(s_)] == 0) return false;
    if (out && !has_send_buffer(stage, *out)) return false;
    if (in) ++own.num_used[static_cast<int>(in->direction)];
    own.waited_for = out;
    if (out) {
      is_sent_[out->id(s_)] = 1;
      own.sent[static_cast<int>(out->direction)].push_back(*out);
    }
    return true;
  }

  const Schedule& s_;
  const std::vector<StageBuffers>& buffers_;
  bool overlap_;
  std::vector<char> is_sent_;
  std::vector<Index> order_;  ///< [message id]: place among its receiver's messages of that direction
  std::vector<Stage> stages_;
};

}  // namespace

std::vector<StageBuffers> plan_buffers(const Schedule& s, bool overlap) {
  std::vector<StageBuffers> buffers(s.actions.size()), most(s.actions.size());
  const MessageTimes times = message_times(s);
  const bool is_local = s.stages == 1;
  for (Index stage = 0; stage < s.stages; ++stage)
    for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
      const StageRoutes routes = stage_routes(s, stage, direction);
      const auto num_receives = static_cast<Index>(routes.receives.size()), num_sends = static_cast<Index>(routes.sends.size());
      const Index ready = most_at_once(s, routes.receives, times);
      const Index receives = is_local ? ready : overlap ? std::max(kReceivesWithOverlap, ready) : 1;
      buffers[static_cast<std::size_t>(stage)].of(direction) = {std::min(num_receives, receives),
                                                                is_local ? 0 : std::min(num_sends, overlap ? kSendsWithOverlap : Index{1})};
      most[static_cast<std::size_t>(stage)].of(direction) = {num_receives, num_sends};
    }
  while (!is_local && !Rehearsal(s, buffers, overlap).ends()) {
    bool has_grown = false;
    for (std::size_t stage = 0; stage < buffers.size(); ++stage)
      for (const Direction direction : {Direction::kForward, Direction::kBackward}) {
        Index& receives = buffers[stage].of(direction).receives;
        has_grown = has_grown || receives < most[stage].of(direction).receives;
        receives = std::min(receives + 1, most[stage].of(direction).receives);
      }
    OPTIMUS_CHECK(has_grown, "a valid schedule runs once every receive is posted");
  }
  return buffers;
}

}  // namespace optimus::pipeline
