#pragma once
// How far a long job is, on standard error.

#include <string>

#include "optimus/base/index.hpp"
#include "optimus/base/timer.hpp"

namespace optimus {

/// A line that says how much is done and how long the rest will take: rewritten in place on a terminal, a log line every ten seconds elsewhere.
/// Use from one thread.
class Progress {
 public:
  /// `unit_size` of the amounts counted make one `unit` on the line ("MB", 1e6).
  Progress(std::string what, Index total, std::string unit, double unit_size, bool is_silent);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void add(Index amount);

 private:
  void show() const;
  std::string what_, unit_;
  Index total_, done_ = 0;
  double unit_size_;
  bool is_silent_, is_terminal_, has_shown_ = false;
  Timer since_start_, since_shown_;
};

}  // namespace optimus
