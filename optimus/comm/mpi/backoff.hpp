#pragma once
// How to wait for a peer that may share this core: look often at first, then let others run, then sleep a little.

#include <sched.h>
#include <time.h>

#include "optimus/base/timer.hpp"

namespace optimus::mpi {

class Backoff {
 public:
  void restart() {
    timer_.restart();
    num_pauses_ = 0;
  }
  [[nodiscard]] double seconds() const { return timer_.seconds(); }

  /// Sleeps are short against what has been waited for already: they add a few percent to a long wait and nothing to a short one.
  void pause() {
    if (++num_pauses_ < 50) return;
    const double waited_s = timer_.seconds();
    if (waited_s < 0.002) {
      sched_yield();
    } else {
      const timespec nap{0, waited_s < 0.1 ? 50'000 : 500'000};
      nanosleep(&nap, nullptr);
    }
  }

 private:
  Timer timer_;
  Index num_pauses_ = 0;
};

}  // namespace optimus::mpi
