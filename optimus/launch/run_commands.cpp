// Many commands beside each other, from one thread.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <memory>
#include <thread>

#include "optimus/base/timer.hpp"
#include "optimus/launch/process.hpp"

namespace optimus::launch {
namespace {

struct Running {
  std::size_t index;
  Process process;
  Timer timer;
};

/// True once the command is over and its output read.
bool attend(Running& running, double limit_s, CommandResult& result) {
  Process& process = running.process;
  const auto code = process.poll();                     // before reading: what it wrote is then in the pipe
  (void)Process::read_some(process.out(), result.out);  // the command's end counts, not the pipe's: a grandchild may hold that for ever
  (void)Process::read_some(process.err(), result.err);
  if (!code && running.timer.seconds() > limit_s) {
    result.is_timed_out = true;
    process.signal_group(SIGKILL);
  }
  if (!code) return false;
  result.code = *code;
  return true;
}

}  // namespace

std::vector<CommandResult> run_commands(const std::vector<std::vector<std::string>>& commands, double limit_s, Index at_a_time) {
  std::vector<CommandResult> results(commands.size());
  std::vector<std::unique_ptr<Running>> running;
  std::size_t next = 0;
  const auto most = static_cast<std::size_t>(std::max<Index>(1, at_a_time));
  while (next < commands.size() || !running.empty()) {
    while (next < commands.size() && running.size() < most) {
      running.push_back(std::make_unique<Running>(
          Running{next, Process(commands[next], {.capture_out = true, .capture_err = true, .signal_on_parent_end = SIGKILL}), Timer()}));
      ++next;
    }
    std::erase_if(running, [&](const auto& one) { return attend(*one, limit_s, results[one->index]); });
    if (!running.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return results;
}

}  // namespace optimus::launch
