#include "optimus/launch/attempt.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>
#include <utility>

namespace optimus::launch {
namespace {

constexpr double kLookInterval_s = 0.5;  // between looks at the run folder, which may lie on a file system with others to serve
constexpr std::size_t kKept = 1 << 16;

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count <= 0) return;  // nobody listens any more: no reason to end the run
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

/// What of the output tells most: from the first error on, otherwise its end.
std::string telling_lines(std::string text, Index count) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  text.insert(0, 1, '\n');
  if (const auto error = text.find("\nerror: "); error != std::string::npos) {
    auto end = text.find('\n', error + 1);
    while (--count > 0 && end != std::string::npos) end = text.find('\n', end + 1);
    return text.substr(error + 1, end == std::string::npos ? end : end - error - 1);
  }
  auto begin = text.size();
  while (count-- > 0 && begin > 0) begin = text.rfind('\n', begin - 1);  // the first character is one
  return text.substr(begin + 1);
}

}  // namespace

double patience_s(double watchdog_s) { return watchdog_s + 10; }

Attempt::Attempt(const std::vector<std::string>& command, std::string run_dir, double watchdog_s)
    : run_dir_(std::move(run_dir)),
      patience_s_(patience_s(watchdog_s)),
      failures_(run_dir_),
      starter_(command, {.capture_err = true, .signal_on_parent_end = SIGTERM}),
      life_(life_sign(run_dir_)) {}

void Attempt::pass_on() {
  std::string text;
  (void)Process::read_some(starter_.err(), text);
  if (text.empty()) return;
  since_life_.restart();
  write_all(STDERR_FILENO, text);
  said_ += text;
  if (said_.size() > kKept) said_.erase(0, said_.size() - kKept);
}

std::optional<RunEnd> Attempt::look() {
  const auto code = starter_.poll();
  pass_on();
  if (code)
    return RunEnd{.code = *code,
                  .was_stuck = was_stuck_,
                  .was_nobody_left = was_nobody_left_,
                  .last_step = last_step(run_dir_),
                  .failures = failures_.read_new(),
                  .report = read_starter_report(said_),
                  .last_words = telling_lines(said_, 6)};
  if (since_look_.seconds() < kLookInterval_s) return std::nullopt;
  since_look_.restart();
  if (const std::uint64_t life = life_sign(run_dir_); life != life_) {
    life_ = life;
    has_begun_ = true;
    since_life_.restart();
  }
  return std::nullopt;
}

void Attempt::end_now() {
  constexpr double kKindness_s = 4;
  const Timer timer;
  ::kill(starter_.pid(), SIGTERM);
  while (!starter_.poll() && timer.seconds() < kKindness_s) {
    pass_on();  // a starter that cannot write does not end
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  starter_.signal_group(SIGKILL);
  while (!starter_.poll()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

}  // namespace optimus::launch
