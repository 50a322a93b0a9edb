#include "optimus/launch/signals.hpp"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "optimus/base/error.hpp"

namespace optimus::launch {
namespace {

/// What somebody has told this process to ignore stays ignored: under nohup a closed terminal is no reason to stop.
sigset_t waited_for() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) {
    struct sigaction now{};
    if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) sigaddset(&set, signal);
  }
  return set;
}

}  // namespace

SignalQueue::SignalQueue() {
  const sigset_t set = waited_for();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  fd_ = ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (fd_ < 0) throw Error("[launch] the system has no signalfd");
}

SignalQueue::~SignalQueue() {
  ::close(fd_);
  const sigset_t set = waited_for();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

std::optional<int> SignalQueue::wait(double seconds) {
  pollfd ready{fd_, POLLIN, 0};
  ::poll(&ready, 1, static_cast<int>(seconds * 1000));
  signalfd_siginfo info{};
  if (::read(fd_, &info, sizeof info) != sizeof info) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

void end_by_signal(int signal) {
  std::signal(signal, SIG_DFL);
  std::raise(signal);
  std::_Exit(128 + signal);  // it was ignored
}

}  // namespace optimus::launch
