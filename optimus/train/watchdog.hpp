#pragma once
// Ends a process that has stopped making progress: what hangs in a kernel or a file system cannot be asked to throw.

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace optimus {

/// Limit for a whole step, where a collective may wait for `watchdog_s`: a little later, so that of several ranks those that wait are the ones to speak, and
/// early enough that all is over 10 s after `watchdog_s`.
[[nodiscard]] double step_limit_s(double watchdog_s);

/// Waits in a thread of its own for the next beat(); if none comes in time, calls `on_expiry` with what the last one said.
class Watchdog {
 public:
  /// `on_expiry` runs in the watchdog's thread, once; usually it does not return.
  Watchdog(double limit_s, std::function<void(const std::string& doing)> on_expiry);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  /// Time starts anew; `doing` describes what begins ("step 12, reduce").
  void beat(std::string doing);

 private:
  void watch(const std::function<void(const std::string&)>& on_expiry);
  std::chrono::duration<double> limit_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::chrono::steady_clock::time_point last_beat_ = std::chrono::steady_clock::now();
  std::string doing_ = "start";
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace optimus
