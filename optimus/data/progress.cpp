#include "optimus/data/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "optimus/base/log.hpp"

namespace optimus {

Progress::Progress(std::string what, Index total, std::string unit, double unit_size, bool is_silent)
    : what_(std::move(what)), unit_(std::move(unit)), total_(total), unit_size_(unit_size), is_silent_(is_silent), is_terminal_(::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (is_terminal_ && has_shown_) std::fputs("\n", stderr);
}

void Progress::add(Index amount) {
  done_ += amount;
  const double interval_s = is_terminal_ ? 0.2 : 10.0;
  if (is_silent_ || since_shown_.seconds() < interval_s) return;
  since_shown_.restart();
  has_shown_ = true;
  show();
}

void Progress::show() const {
  const double elapsed_s = std::max(since_start_.seconds(), 1e-9), fraction = static_cast<double>(done_) / static_cast<double>(std::max<Index>(total_, 1));
  const double rate = static_cast<double>(done_) / elapsed_s / unit_size_;
  const auto left_s = static_cast<Index>(fraction > 0 ? elapsed_s * (1 - fraction) / fraction : 0);
  const std::string line =
      fmt::format("{} {:.0f} of {:.0f} {} ({:.0f} %), {:.1f} {}/s, {}:{:02}:{:02} left", what_, static_cast<double>(done_) / unit_size_,
                  static_cast<double>(total_) / unit_size_, unit_, 100 * fraction, rate, unit_, left_s / 3600, left_s / 60 % 60, left_s % 60);
  if (is_terminal_) {
    fmt::print(stderr, "\r\x1b[K{}", line);
    std::fflush(stderr);
  } else {
    log_info("{}", line);
  }
}

}  // namespace optimus
