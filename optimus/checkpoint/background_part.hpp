#pragma once
// A part of a checkpoint that a thread of its own does, on each rank. Internal to this folder.

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "optimus/comm/communicator.hpp"

namespace optimus {

/// Ranks that are through keep meeting while they wait for the others: a rank that writes for long is not one that is lost.
class BackgroundPart {
 public:
  /// Begins `work`, which only touches files and does not throw.
  explicit BackgroundPart(std::function<void()> work);
  /// Waits for it.
  ~BackgroundPart();
  BackgroundPart(const BackgroundPart&) = delete;
  BackgroundPart& operator=(const BackgroundPart&) = delete;

  /// Does not wait for the disk.  Collective: over `world`.
  [[nodiscard]] bool is_done_by_all(Communicator& world);
  /// Until all are through; calls `waiting` (may be empty) some times a second.  Collective: over `world`.
  void wait_for_all(Communicator& world, const std::function<void()>& waiting);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_done_ = false;
  std::thread thread_;
};

}  // namespace optimus
