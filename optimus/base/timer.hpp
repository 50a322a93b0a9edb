#pragma once
// Wall time and memory of this process.

#include <algorithm>
#include <chrono>

#include "optimus/base/index.hpp"

namespace optimus {

/// Seconds since construction or restart().
class Timer {
 public:
  Timer() { restart(); }
  void restart() { start_ = std::chrono::steady_clock::now(); }
  [[nodiscard]] double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_;
};

/// `seconds` as a time to wait, at most 30 years: more would overflow the clock, and what should wait for ever would not wait at all.
[[nodiscard]] inline std::chrono::duration<double> waiting_time(double seconds) { return std::chrono::duration<double>(std::min(seconds, 1e9)); }

/// Largest resident size of this process so far, in bytes.
[[nodiscard]] Index peak_memory_bytes();
/// Resident size now, in bytes.
[[nodiscard]] Index current_memory_bytes();
/// Memory of the machine (or of its control group, if that is less), in bytes.
[[nodiscard]] Index machine_memory_bytes();

}  // namespace optimus
