#pragma once
// One start of the run, from the starter's first breath to its last.

#include <optional>
#include <string>

#include "optimus/base/timer.hpp"
#include "optimus/launch/diagnosis.hpp"
#include "optimus/launch/process.hpp"

namespace optimus::launch {

/// Seconds without a sign of life after which a run counts as stuck. Its own watchdog comes first: a collective ends after watchdog_s, a rank that is stuck alone
/// a tenth later, and both then take some seconds to end the others.
[[nodiscard]] double patience_s(double watchdog_s);

/// The starter and what it says. Its standard error goes on to ours, and the end of it is kept.
class Attempt {
 public:
  Attempt(const std::vector<std::string>& command, std::string run_dir, double watchdog_s);
  /// Looks once: reads what has come, notes signs of life. The end of the run once it has ended.
  [[nodiscard]] std::optional<RunEnd> look();
  /// Seconds since the last sign of life.
  [[nodiscard]] double silence_s() const { return since_life_.seconds(); }
  /// No sign of life for longer than patience.
  [[nodiscard]] bool is_stuck() const { return silence_s() > patience_s_; }
  /// Whether ranks have written something in this start.
  [[nodiscard]] bool has_begun() const { return has_begun_; }
  /// Ends the starter and what it started here: kindly, then not. Blocks for some seconds at most.
  void end_now();
  void note_stuck() { was_stuck_ = true; }
  void note_nobody_left() { was_nobody_left_ = true; }

 private:
  void pass_on();
  std::string run_dir_;
  double patience_s_;
  FailureReader failures_;
  Process starter_;
  std::string said_;
  std::uint64_t life_;
  Timer since_life_, since_look_;
  bool has_begun_ = false, was_stuck_ = false, was_nobody_left_ = false;
};

}  // namespace optimus::launch
