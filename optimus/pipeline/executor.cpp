#include "optimus/pipeline/executor.hpp"

#include <fmt/format.h>

#include "optimus/base/counted.hpp"
#include "optimus/base/timer.hpp"
#include "optimus/pipeline/lane.hpp"

namespace optimus::pipeline {
namespace {

void check(const Schedule& schedule, const Communicator& pp) {
  validate(schedule);
  if (pp.size() != schedule.stages)
    throw ConfigError(fmt::format("[pipeline] a schedule of {} over the group {} of {}; each stage is one rank", counted(schedule.stages, "stage"), pp.name(),
                                  counted(pp.size(), "rank")));
}

void call(StageWork& work, const Action& action, const StageMessage& received, const StageMessage& sent) {
  switch (action.kind) {
    case ActionKind::kForward: return work.forward(action, received, sent);
    case ActionKind::kBackward: return work.backward(action, received, sent);
    case ActionKind::kBackwardInput: return work.backward_input(action, received, sent);
    case ActionKind::kBackwardWeight: return work.backward_weight(action);
  }
}

}  // namespace

struct Executor::State {
  State(const Schedule& given, Communicator& group, const MessageFormats& formats, bool is_overlapped, const StageBuffers& buffers)
      : schedule(given),
        pp(group),
        stage(group.rank()),
        overlap(is_overlapped),
        forward(given, stage, Direction::kForward, formats.forward, buffers.forward, group),
        backward(given, stage, Direction::kBackward, formats.backward, buffers.backward, group) {}

  void run(StageWork& work) {
    waited_s = 0;
    forward.begin();
    backward.begin();
    for (const Action& action : schedule.actions[static_cast<std::size_t>(stage)]) step(work, action);
    timed([&] {
      forward.finish();
      backward.finish();
    });
  }

  void step(StageWork& work, const Action& action) {
    Lane& lane = action.kind == ActionKind::kForward ? forward : backward;
    const bool has_input = incoming(schedule, stage, action).has_value(), has_output = outgoing(schedule, stage, action).has_value();
    StageMessage received, sent;
    timed([&] {
      if (has_input) received = lane.receive();
      if (has_output) sent = lane.prepare_send();
    });
    call(work, action, received, sent);
    timed([&] {
      if (has_input) lane.release();
      if (has_output) lane.send(!overlap);
    });
  }

  template <class Body>
  void timed(Body&& body) {
    const Timer timer;
    body();
    waited_s += timer.seconds();
  }

  Schedule schedule;
  Communicator& pp;
  Index stage;
  bool overlap;
  double waited_s = 0;
  Lane forward, backward;
};

Executor::Executor(const Schedule& schedule, Communicator& pp, const MessageFormats& formats, bool overlap) {
  check(schedule, pp);
  const StageBuffers buffers = plan_buffers(schedule, overlap)[static_cast<std::size_t>(pp.rank())];
  state_ = std::make_unique<State>(schedule, pp, formats, overlap, buffers);
}
Executor::~Executor() = default;

void Executor::run(StageWork& work) {
  try {
    state_->run(work);
  } catch (...) {
    // At once, before transfers under way are given up: the others may wait for this stage.
    state_->pp.announce_failure();
    throw;
  }
}

void Executor::progress() {
  if (!state_->forward.progress()) (void)state_->backward.progress();
}

double Executor::waited_s() const { return state_->waited_s; }
const Schedule& Executor::schedule() const { return state_->schedule; }

Index plan_bytes(const Schedule& schedule, Index stage, const MessageFormats& formats, bool overlap) {
  const StageBuffers buffers = plan_buffers(schedule, overlap).at(static_cast<std::size_t>(stage));
  return checked_add(Lane::bytes(formats.forward, buffers.forward), Lane::bytes(formats.backward, buffers.backward));
}

}  // namespace optimus::pipeline
