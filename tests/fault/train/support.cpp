#include "support.hpp"

#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <thread>

#include "optimus/base/file.hpp"

namespace optimus::test {
namespace {

std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return "popen failed";
  char buffer[256];
  while (std::fgets(buffer, sizeof buffer, pipe) != nullptr) text += buffer;
  ::pclose(pipe);
  return text;
}

}  // namespace

std::string Drill::processes() const {
  // The brackets keep the pattern from matching the shell that runs it.
  const std::string name = run_.string(), command = "pgrep -f 'run.dir=[" + name.substr(0, 1) + "]" + name.substr(1) + "' || true";
  std::string left;
  for (const Timer timer; timer.seconds() < 15; std::this_thread::sleep_for(std::chrono::milliseconds(100))) {
    left = output_of(command);
    if (left.empty()) break;
  }
  return left;
}

std::vector<nlohmann::json> Drill::failures() const {
  std::vector<nlohmann::json> lines;
  std::ifstream in(run_ / "failures.jsonl");
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

ProgramResult Drill::run_and(const Layout& layout, const Settings& settings, const std::string& poke) const {
  const std::string name = run_.string(), script = (folder_ / "script").string(), err = (folder_ / "err").string();
  std::ofstream(script) << "steps() { for i in $(seq 600); do [ \"$(cat '" << name
                        << "/metrics.jsonl' 2>/dev/null | wc -l)\" -ge $1 ] && break; sleep 0.05; done; }\n"
                        << "rank() { for p in $(pgrep -f 'run.dir=[" << name.substr(0, 1) << "]" << name.substr(1)
                        << "'); do tr '\\0' '\\n' < /proc/$p/environ 2>/dev/null | grep -qx -e OMPI_COMM_WORLD_RANK=$1 -e PMI_RANK=$1 && echo $p; done; }\n"
                        << "OMP_NUM_THREADS=1 timeout 120 " << optimus_command(args(layout, settings), kRanks) << " >/dev/null 2>'" << err << "' &\n"
                        << "run=$!\n"
                        << poke << "\nwait $run\n";
  const int status = std::system(("bash '" + script + "' 2>/dev/null").c_str());
  return {.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), .out = "", .err = read_file(err)};
}

ProgramResult Drill::run_each(const Layout& layout, const Settings& settings, const std::function<std::string(int)>& first) const {
  std::vector<RankStart> starts;
  for (int rank = 0; rank < kRanks; ++rank) {
    const auto program = folder_ / ("start-" + std::to_string(rank));
    std::ofstream(program) << "#!/bin/sh\n" << first(rank) << "\nexec timeout 120 " << optimus_program().string() << " \"$@\"\n";
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    starts.push_back({.args = args(layout, settings), .program = program});
  }
  return run_optimus_ranks(starts);
}

}  // namespace optimus::test
