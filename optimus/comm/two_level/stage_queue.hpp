#pragma once
// Collectives in stages, several under way. Private to this folder.

#include <deque>
#include <memory>
#include <vector>

#include "optimus/comm/communicator.hpp"

namespace optimus::two_level {

using Requests = std::vector<std::unique_ptr<Request>>;

/// Inside the node, between nodes, inside the node.
inline constexpr int kNumStages = 3;

class StagedWork {
 public:
  virtual ~StagedWork() = default;
  /// Starts stage `stage`: appends what has to be done before the next.
  virtual void start(int stage, Requests& requests) = 0;
  /// All stages are done.
  virtual void finish() {}
};

/// A queue of works whose stages overlap.
///
/// All members of a group queue the same works in the same order. A stage of a work starts only after the same stage of the work before has
/// started: with groups of their own for each stage, everybody starts the same collectives in the same order, however late each one is.
class StageQueue final : public Progress {
 public:
  /// Works under way at the same time; each may hold memory.
  static constexpr std::size_t kInFlight = 4;

  struct Job {
    std::unique_ptr<StagedWork> work;
    int num_started = 0;       ///< stages
    Requests requests;         ///< of all stages so far; kept, because somebody may be waiting for one of them
    std::size_t num_done = 0;  ///< of the requests
    bool is_done = false;
  };
  using JobHandle = std::shared_ptr<Job>;  ///< shared by the queue and who waits

  /// Advances whenever ranks wait in a group from the same world as `group`.
  explicit StageQueue(Communicator& group) : group_(group) { group_.add_progress(*this); }
  ~StageQueue() override { group_.remove_progress(*this); }
  StageQueue(const StageQueue&) = delete;
  StageQueue& operator=(const StageQueue&) = delete;

  [[nodiscard]] JobHandle push(std::unique_ptr<StagedWork> work);
  void advance() override;
  void wait(const Job& job);
  /// Forgets a work that will not come to its end.
  void drop(const JobHandle& job) noexcept { std::erase(jobs_, job); }

 private:
  [[nodiscard]] static bool are_requests_done(Job& job);
  [[nodiscard]] bool sweep();
  Communicator& group_;
  std::deque<JobHandle> jobs_;
  bool is_advancing_ = false;
};

}  // namespace optimus::two_level
