#pragma once
// Timing for benchmarks: the best of many runs, because other programs only ever make a run slower.

#include <omp.h>

#include <algorithm>
#include <ctime>

#include "optimus/base/timer.hpp"

namespace optimus::bench {

/// Seconds since some moment: of this process's own computing with one thread (what other programs take does not count), else of the wall clock.
inline double now_s() {
  timespec now{};
  clock_gettime(omp_get_max_threads() == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Seconds of the fastest call of `body` among those that fit into `budget_s` (at least 3), after one to warm up.
template <class Body> double best_seconds(Body&& body, double budget_s = 0.15) {
  body();
  double best = 1e30;
  const Timer total;
  for (int i = 0; i < 3 || total.seconds() < budget_s; ++i) {
    const double start = now_s();
    body();
    best = std::min(best, now_s() - start);
  }
  return best;
}

}  // namespace optimus::bench
