#include "optimus/train/signals.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

namespace optimus {
namespace {

constexpr std::array<std::pair<const char*, int>, 6> kSignals = {
    {{"SIGTERM", SIGTERM}, {"SIGUSR1", SIGUSR1}, {"SIGUSR2", SIGUSR2}, {"SIGINT", SIGINT}, {"SIGHUP", SIGHUP}, {"SIGXCPU", SIGXCPU}}};

// A handler has no argument for an object: the one place where only something process-wide can be reached.
volatile std::sig_atomic_t last_signal = 0;

void note(int number) { last_signal = number; }

}  // namespace

std::optional<int> parse_signal(const std::string& name) {
  const auto* found = std::find_if(kSignals.begin(), kSignals.end(), [&](const auto& entry) { return name == entry.first; });
  return found == kSignals.end() ? std::nullopt : std::optional(found->second);
}

std::string signal_names() {
  std::string names;
  for (const auto& [name, number] : kSignals) names += (names.empty() ? "" : ", ") + std::string(name);
  return names;
}

SignalWatch::SignalWatch(const std::vector<std::string>& names) {
  last_signal = 0;
  for (const std::string& name : names) {
    struct sigaction action{};
    action.sa_handler = note;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);  // RESETHAND: a second signal meets the default again
    const int number = parse_signal(name).value_or(0);
    if (sigaction(number, &action, nullptr) == 0) numbers_.push_back(number);
  }
}

SignalWatch::~SignalWatch() {
  for (const int number : numbers_) std::signal(number, SIG_DFL);
}

int SignalWatch::received() { return last_signal; }

}  // namespace optimus
