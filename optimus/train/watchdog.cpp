#include "optimus/train/watchdog.hpp"

#include <algorithm>
#include <utility>

#include "optimus/base/timer.hpp"

namespace optimus {
double step_limit_s(double watchdog_s) { return std::min(1.1 * watchdog_s + 1, watchdog_s + 5); }

Watchdog::Watchdog(double limit_s, std::function<void(const std::string& doing)> on_expiry)
    : limit_(waiting_time(limit_s)), thread_([this, f = std::move(on_expiry)] { watch(f); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::beat(std::string doing) {
  const std::lock_guard lock(mutex_);
  doing_ = std::move(doing);
  last_beat_ = std::chrono::steady_clock::now();
}

void Watchdog::watch(const std::function<void(const std::string&)>& on_expiry) {
  std::unique_lock lock(mutex_);
  while (!is_over_) {
    const auto deadline = last_beat_ + std::chrono::duration_cast<std::chrono::steady_clock::duration>(limit_);
    if (std::chrono::steady_clock::now() >= deadline) {
      const std::string doing = doing_;
      lock.unlock();
      on_expiry(doing);
      return;
    }
    changed_.wait_until(lock, deadline);
  }
}

}  // namespace optimus
