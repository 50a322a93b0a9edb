#include <fmt/format.h>

#include <algorithm>

#include "optimus/base/check.hpp"
#include "optimus/base/counted.hpp"
#include "optimus/pipeline/route.hpp"
#include "optimus/pipeline/schedule.hpp"

namespace optimus::pipeline {
namespace {

std::string_view kind_name(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward: return "forward";
    case ActionKind::kBackward: return "backward";
    case ActionKind::kBackwardInput: return "input part of the backward";
    case ActionKind::kBackwardWeight: return "weight part of the backward";
  }
  return "?";
}

/// One stage, action after action.
class StageCheck {
 public:
  StageCheck(const Schedule& schedule, Index stage)
      : s_(schedule), stage_(stage), chunks_(static_cast<std::size_t>(schedule.virtual_stages)), bound_(activation_bound(schedule, stage)) {}

  void check(std::size_t index) {
    index_ = index;
    const Action& a = action();
    require(a.chunk >= 0 && a.chunk < s_.virtual_stages, "the schedule has " + counted(s_.virtual_stages, "chunk"));
    require(a.micro_batch >= 0 && a.micro_batch < s_.micro_batches, "the schedule has " + counted(s_.micro_batches, "micro-batch"));
    Chunk& chunk = chunks_[static_cast<std::size_t>(a.chunk)];
    if (a.kind == ActionKind::kForward) {
      require_next(chunk.num_forward);
      take_slot(chunk);
    } else {
      require(!s_.is_forward_only(), "the schedule has forward passes only");
      check_slot(chunk);
    }
    if (a.kind == ActionKind::kBackward || a.kind == ActionKind::kBackwardInput) {
      require_next(chunk.num_input);
      require(a.micro_batch < chunk.num_forward, "its forward has not run yet");
    }
    if (a.kind == ActionKind::kBackward || a.kind == ActionKind::kBackwardWeight) {
      require_next(chunk.num_weight);
      require(a.micro_batch < chunk.num_input, "its input part has not run yet");
    }
    if (a.kind == ActionKind::kBackward || a.kind == ActionKind::kBackwardWeight || s_.is_forward_only()) free_slot(chunk);
  }

  void check_end() const {
    const Index wanted_backward = s_.is_forward_only() ? 0 : s_.micro_batches;
    for (std::size_t c = 0; c < chunks_.size(); ++c)
      if (chunks_[c].num_forward != s_.micro_batches || chunks_[c].num_input != wanted_backward || chunks_[c].num_weight != wanted_backward)
        throw InternalError(fmt::format("[pipeline] {}, stage {}, chunk {}: {}, {} and {} of {}", s_.name, stage_, c,
                                        counted(chunks_[c].num_forward, "forward"), counted(chunks_[c].num_input, "input part"),
                                        counted(chunks_[c].num_weight, "weight part"), counted(s_.micro_batches, "micro-batch")));
  }

 private:
  struct Chunk {
    Index num_forward = 0, num_input = 0, num_weight = 0;  ///< also the next micro-batch of each
    std::vector<Index> holders;                            ///< [slot]: micro-batch, or -1
  };

  [[nodiscard]] const Action& action() const { return s_.actions[static_cast<std::size_t>(stage_)][index_]; }
  void require(bool condition, const std::string& otherwise) const {
    if (condition) return;
    throw InternalError(fmt::format("[pipeline] {}, stage {}, action {} ({} of micro-batch {} in chunk {}, slot {}): {}", s_.name, stage_, index_,
                                    kind_name(action().kind), action().micro_batch, action().chunk, action().slot, otherwise));
  }
  void require_next(Index& next) const {
    require(action().micro_batch == next, fmt::format("micro-batch {} is next", next));
    ++next;
  }
  void take_slot(Chunk& chunk) {
    const Action& a = action();
    require(a.slot >= 0 && a.slot < s_.micro_batches, "that slot cannot be needed");
    if (a.slot >= static_cast<Index>(chunk.holders.size())) chunk.holders.resize(static_cast<std::size_t>(a.slot) + 1, -1);
    Index& holder = chunk.holders[static_cast<std::size_t>(a.slot)];
    require(holder < 0, fmt::format("the slot still holds micro-batch {}", holder));
    holder = a.micro_batch;
    ++num_held_;
    require(num_held_ <= bound_, fmt::format("the stage would hold {}, its bound is {}", counted(num_held_, "micro-batch"), bound_));
  }
  void check_slot(const Chunk& chunk) const {
    const Action& a = action();
    require(a.slot >= 0 && a.slot < static_cast<Index>(chunk.holders.size()) && chunk.holders[static_cast<std::size_t>(a.slot)] == a.micro_batch,
            "the slot does not hold that micro-batch");
  }
  void free_slot(Chunk& chunk) {
    chunk.holders[static_cast<std::size_t>(action().slot)] = -1;
    --num_held_;
  }

  const Schedule& s_;
  Index stage_;
  std::vector<Chunk> chunks_;
  Index bound_;
  Index num_held_ = 0;
  std::size_t index_ = 0;
};

/// Receives block, sends do not.
void check_progress(const Schedule& s) {
  std::vector<char> is_sent(message_ids(s), 0);
  const auto done = run_all(s, [&](std::size_t stage, std::size_t index) {
    const Action& action = s.actions[stage][index];
    const auto in = incoming(s, static_cast<Index>(stage), action), out = outgoing(s, static_cast<Index>(stage), action);
    if (in && is_sent[in->id(s)] == 0) return false;
    if (out) is_sent[out->id(s)] = 1;
    return true;
  });
  const auto stuck = stuck_stage(s, done);
  if (!stuck) return;
  const Action& action = s.actions[*stuck][done[*stuck]];
  const auto in = incoming(s, static_cast<Index>(*stuck), action);
  OPTIMUS_CHECK(in.has_value(), "only a message can be waited for");
  throw InternalError(fmt::format("[pipeline] {}, stage {}, action {} ({} of micro-batch {} in chunk {}) waits for ever for stage {}: a deadlock", s.name,
                                  *stuck, done[*stuck], kind_name(action.kind), action.micro_batch, action.chunk, in->from));
}

}  // namespace

void validate(const Schedule& s) {
  if (s.stages < 1 || s.virtual_stages < 1 || s.micro_batches < 1 || static_cast<Index>(s.actions.size()) != s.stages)
    throw InternalError(fmt::format("[pipeline] {}: {} for {} of {} and {}", s.name, counted(s.actions.size(), "action list"), counted(s.stages, "stage"),
                                    counted(s.virtual_stages, "chunk"), counted(s.micro_batches, "micro-batch")));
  for (Index stage = 0; stage < s.stages; ++stage) {
    StageCheck check(s, stage);
    for (std::size_t i = 0; i < s.actions[static_cast<std::size_t>(stage)].size(); ++i) check.check(i);
    check.check_end();
  }
  check_progress(s);
}

}  // namespace optimus::pipeline
