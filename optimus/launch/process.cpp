#include "optimus/launch/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "optimus/base/error.hpp"

namespace optimus::launch {
namespace {

struct Pipe {
  int read = -1, write = -1;
};

Pipe open_pipe(bool is_wanted) {
  std::array<int, 2> ends{-1, -1};
  if (is_wanted && ::pipe2(ends.data(), O_CLOEXEC) != 0) throw FileError(fmt::format("[launch] cannot make a pipe: {}", std::strerror(errno)));
  if (is_wanted) ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return {ends[0], ends[1]};
}

void close_if_open(int& fd) {
  if (fd >= 0) ::close(fd);
  fd = -1;
}

/// In the child, between fork and exec: system calls only.
[[noreturn]] void become(char* const* args, const Pipe& out, const Pipe& err, int signal_on_parent_end, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, signal_on_parent_end);
  if (::getppid() != parent) ::_exit(128 + signal_on_parent_end);  // the parent has ended in between
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
  if (out.write >= 0) ::dup2(out.write, STDOUT_FILENO);
  if (err.write >= 0) ::dup2(err.write, STDERR_FILENO);
  ::execvp(args[0], args);
  ::_exit(127);
}

}  // namespace

Process::Process(const std::vector<std::string>& args, const Options& options) {
  Pipe out = open_pipe(options.capture_out), err = open_pipe(options.capture_err);
  std::vector<char*> pointers;
  for (const std::string& arg : args) pointers.push_back(const_cast<char*>(arg.c_str()));
  pointers.push_back(nullptr);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) become(pointers.data(), out, err, options.signal_on_parent_end, parent);
  close_if_open(out.write);
  close_if_open(err.write);
  out_ = out.read;
  err_ = err.read;
  if (pid_ < 0) {
    const int reason = errno;
    close_if_open(out_);
    close_if_open(err_);
    throw FileError(fmt::format("[launch] cannot start {}: {}", args.front(), std::strerror(reason)));
  }
  ::setpgid(pid_, pid_);  // whoever of the two is first
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), out_(std::exchange(other.out_, -1)), err_(std::exchange(other.err_, -1)), code_(other.code_) {}

Process::~Process() {
  if (pid_ > 0 && !code_) {
    ::kill(-pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  close_if_open(out_);
  close_if_open(err_);
}

std::optional<int> Process::poll() {
  int status = 0;
  if (!code_ && ::waitpid(pid_, &status, WNOHANG) == pid_) code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return code_;
}

void Process::signal_group(int signal) const {
  if (pid_ > 0) ::kill(-pid_, signal);
}

bool Process::read_some(int fd, std::string& text) {
  if (fd < 0) return false;
  std::array<char, 4096> buffer{};
  while (true) {
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count > 0) text.append(buffer.data(), static_cast<std::size_t>(count));
    else return count < 0 && (errno == EAGAIN || errno == EINTR);
  }
}

std::string shell_line(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    if (!line.empty()) line += ' ';
    const bool is_plain =
        !word.empty() && word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,+=@%") == std::string::npos;
    if (is_plain) {
      line += word;
      continue;
    }
    line += '\'';
    for (const char c : word) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += '\'';
  }
  return line;
}

std::optional<std::string> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return ::access(name.c_str(), X_OK) == 0 ? std::optional(name) : std::nullopt;
  const char* path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): nobody sets it while we run
  std::string folders = path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin";
  for (std::size_t begin = 0; begin <= folders.size();) {
    const auto end = std::min(folders.find(':', begin), folders.size());
    std::string candidate = folders.substr(begin, end - begin) + "/" + name;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    begin = end + 1;
  }
  return std::nullopt;
}

}  // namespace optimus::launch
