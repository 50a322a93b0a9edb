#pragma once
// How often a run may be restarted, in all and within an hour. The caller brings the clock.

#include <algorithm>
#include <deque>

#include "optimus/base/index.hpp"

namespace optimus::launch {

class RestartBudget {
 public:
  RestartBudget(Index in_all, Index per_hour) : in_all_(in_all), per_hour_(per_hour) {}
  [[nodiscard]] bool is_used_up() const { return used_ >= in_all_; }
  /// Whether the hour before `now_s` has had as many as it may. Times do not go back.
  [[nodiscard]] bool is_hour_full(double now_s) {
    while (!times_.empty() && times_.front() <= now_s - 3600) times_.pop_front();
    return static_cast<Index>(times_.size()) >= per_hour_;
  }
  void use(double now_s) {
    ++used_;
    times_.push_back(now_s);
  }
  [[nodiscard]] Index used() const { return used_; }

 private:
  Index in_all_, per_hour_, used_ = 0;
  std::deque<double> times_;
};

/// min(longest, first · 2^(failures − 1)): the pause after so many failures in a row without progress.
[[nodiscard]] inline double backoff_s(Index failures, double first_s, double longest_s) {
  double delay = first_s;
  for (Index i = 1; i < failures && delay < longest_s; ++i) delay *= 2;
  return std::min(delay, longest_s);
}

}  // namespace optimus::launch
