#pragma once
// Signals as something to wait for, instead of something that interrupts.

#include <optional>

namespace optimus::launch {

/// While it lives, those of SIGTERM, SIGINT, SIGHUP and SIGUSR1 that are not ignored are kept for wait(). Children start with a clear mask (process.hpp). One object at a time, made before
/// any thread.
class SignalQueue {
 public:
  SignalQueue();
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;
  /// The next signal, waiting for at most `seconds`.
  [[nodiscard]] std::optional<int> wait(double seconds);

 private:
  int fd_ = -1;
};

/// Ends this process as `signal` ends one that does not care.
[[noreturn]] void end_by_signal(int signal);

}  // namespace optimus::launch
