#include "optimus/launch/marked.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>

#include "optimus/base/hash.hpp"
#include "optimus/base/timer.hpp"

namespace optimus::launch {
namespace {

constexpr std::array<std::string_view, 3> kDaemons = {"orted", "prted", "hydra_pmi_prox"};  // the kernel keeps 15 characters of a name

/// A whole file of /proc; empty if the process is gone or another user's.
std::string proc_file(pid_t pid, const char* name) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Stat {
  std::string name;
  char state = '?';
  pid_t parent = 0;
};

/// "pid (name) state parent …"; a name may hold brackets itself.
Stat stat_of(pid_t pid) {
  const std::string text = proc_file(pid, "stat");
  const auto open = text.find('('), close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close + 4 >= text.size()) return {};
  Stat stat{.name = text.substr(open + 1, close - open - 1), .state = text[close + 2]};
  std::from_chars(text.data() + close + 4, text.data() + text.size(), stat.parent);
  return stat;
}

bool has_mark(pid_t pid, const std::string& entry) {
  const std::string environment = proc_file(pid, "environ");
  return environment.starts_with(entry) || environment.find('\0' + entry) != std::string::npos;
}

bool is_daemon(const std::string& name) {
  return std::any_of(kDaemons.begin(), kDaemons.end(), [&](std::string_view daemon) { return name.starts_with(daemon); });
}

}  // namespace

std::string mark_of(const std::string& run_dir) { return hex64(xxh64(run_dir)); }

std::vector<pid_t> marked_processes(const std::string& mark) {
  const std::string entry = std::string(kMark) + "=" + mark + '\0';
  std::vector<pid_t> found;
  std::error_code ignored;
  for (const auto& folder : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string name = folder.path().filename();
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc{} || end != name.data() + name.size() || pid == ::getpid()) continue;
    if (has_mark(pid, entry) && stat_of(pid).state != 'Z') found.push_back(pid);
  }
  return found;
}

Index kill_marked(const std::string& mark, double patience_s, Index& left) {
  std::set<pid_t> seen;
  const Timer timer;
  while (true) {
    const std::vector<pid_t> pids = marked_processes(mark);
    left = static_cast<Index>(pids.size());
    std::set<pid_t> daemons;
    for (const pid_t pid : pids) {
      const pid_t parent = stat_of(pid).parent;
      if (parent > 1 && is_daemon(stat_of(parent).name)) daemons.insert(parent);
      ::kill(pid, SIGKILL);
      seen.insert(pid);
    }
    for (const pid_t daemon : daemons) ::kill(daemon, SIGKILL);
    if (pids.empty() || timer.seconds() > patience_s) return static_cast<Index>(seen.size());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

Index signal_marked(const std::string& mark, int signal) {
  const std::vector<pid_t> pids = marked_processes(mark);
  return std::count_if(pids.begin(), pids.end(), [signal](pid_t pid) { return ::kill(pid, signal) == 0; });
}

}  // namespace optimus::launch
