#pragma once
// Runs a schedule: calls the stage's work in order and moves messages between stages.

#include <memory>

#include "optimus/comm/communicator.hpp"
#include "optimus/pipeline/stage_work.hpp"

namespace optimus::pipeline {

/// One stage of a pipeline; the member index in `pp` is the stage.
///
/// Receives are posted ahead and sends do not wait; how many messages may be under way follows from the schedule (buffer_plan.hpp). With overlap = false
/// each send is waited for at once, and receives are posted no further ahead than that needs. The results are the same bytes either way.
/// In a group of one, messages between its chunks stay in memory: what a chunk sends is what the next receives.
///
/// Memory:  all buffers are allocated here, plan_bytes() of them; run() allocates no more.
/// Tags:    0 … 16000 of `pp` while run() runs, apart for direction, chunk and micro-batch as far as they go; where they repeat, the order of messages tells.
class Executor {
 public:
  /// `pp` must outlive it; `schedule` is copied.
  /// Errors:  InternalError if the schedule is not valid; ConfigError if `pp` is not as large as the schedule has stages, or there are more chunks than tags.
  Executor(const Schedule& schedule, Communicator& pp, const MessageFormats& formats, bool overlap);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// All actions of this stage, once. Any number of times.
  ///
  /// Collective: over pp.
  /// Errors:     what `work` throws on any stage, on all stages that wait for a message, now or later, with "rank N: " before it elsewhere
  ///             (Communicator::announce_failure); CommError for a peer that is gone or late. The executor is of no use afterwards.
  void run(StageWork& work);

  /// Lets transfers move on. For long computations inside StageWork, between their parts; any number of times.
  void progress();
  /// Seconds that the last run() waited for messages.
  [[nodiscard]] double waited_s() const;
  [[nodiscard]] const Schedule& schedule() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Bytes of the buffers of an executor on `stage`.
[[nodiscard]] Index plan_bytes(const Schedule& schedule, Index stage, const MessageFormats& formats, bool overlap);

}  // namespace optimus::pipeline
