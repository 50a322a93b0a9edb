#include "optimus/launch/node_report.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>

#include "optimus/base/counted.hpp"
#include "optimus/base/error.hpp"
#include "optimus/base/file.hpp"
#include "optimus/base/timer.hpp"
#include "optimus/base/topology.hpp"
#include "optimus/launch/marked.hpp"
#include "optimus/launch/self_test.hpp"

namespace optimus::launch {
namespace {

constexpr double kKillPatience_s = 5;

std::string own_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

/// What the kernel would give a new program without swapping, within the control group's limit.
Index available_memory() {
  std::ifstream in("/proc/meminfo");
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("MemAvailable:")) return std::min(machine_memory_bytes(), 1024 * static_cast<Index>(std::strtoll(line.c_str() + 13, nullptr, 10)));
  }
  return machine_memory_bytes();
}

/// A folder that exists on one node only looks like a shared one until the first checkpoint.
std::string try_to_write(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return fmt::format("{} is not there: the run folder has to lie on a file system that all nodes share", folder.string());
  const fs::path probe = folder / fmt::format("probe-{}-{}", own_name(), ::getpid());
  try {
    write_file_atomically(probe, "written by optimus launch to see whether this node can\n");
  } catch (const FileError& failure) {
    return failure.what();
  }
  fs::remove(probe, error);
  return "";
}

std::string gib(Index bytes) { return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (Index{1} << 30)); }

}  // namespace

NodeReport examine_node(const NodeNeeds& needs) {
  NodeReport report{.host = own_name(), .threads = usable_threads(), .memory_bytes = machine_memory_bytes()};
  if (!needs.mark.empty()) report.killed = kill_marked(needs.mark, kKillPatience_s, report.unkillable);
  report.available_bytes = available_memory();
  report.write_problem = try_to_write(needs.run_dir);
  if (report.write_problem.empty()) report.disk_free_bytes = free_bytes(needs.run_dir);
  const SelfTestResult test = run_self_test(needs.self_test_s, report.threads);
  report.rounds = test.rounds;
  report.wrong_rounds = test.wrong_rounds;
  return report;
}

std::string to_json(const NodeReport& r) {
  return nlohmann::ordered_json{{"host", r.host},
                                {"threads", r.threads},
                                {"memory_bytes", r.memory_bytes},
                                {"available_bytes", r.available_bytes},
                                {"disk_free_bytes", r.disk_free_bytes},
                                {"rounds", r.rounds},
                                {"wrong_rounds", r.wrong_rounds},
                                {"killed", r.killed},
                                {"unkillable", r.unkillable},
                                {"write_problem", r.write_problem}}
      .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

NodeReport parse_node_report(const std::string& text) {
  // Login scripts may print something before it.
  const auto begin = text.rfind("{\"host\":");
  const auto json = nlohmann::json::parse(begin == std::string::npos ? "" : text.substr(begin), nullptr, false);
  if (!json.is_object()) throw Error(fmt::format("its answer is no report: \"{}\"", text.substr(0, 200)));
  NodeReport r;
  try {
    r.host = json.at("host").get<std::string>();
    for (auto [name, value] : {std::pair{"threads", &r.threads}, std::pair{"memory_bytes", &r.memory_bytes}, std::pair{"available_bytes", &r.available_bytes},
                               std::pair{"disk_free_bytes", &r.disk_free_bytes}, std::pair{"rounds", &r.rounds}, std::pair{"wrong_rounds", &r.wrong_rounds},
                               std::pair{"killed", &r.killed}, std::pair{"unkillable", &r.unkillable}})
      *value = json.at(name).get<Index>();
    r.write_problem = json.at("write_problem").get<std::string>();
  } catch (const nlohmann::json::exception& error) {
    throw Error(fmt::format("its report lacks something ({}); do all nodes have the same version of this program?", error.what()));
  }
  return r;
}

bool lacks_run_folder(const NodeReport& report, const NodeNeeds& needs) { return !report.write_problem.empty() || report.disk_free_bytes < needs.disk_bytes; }

std::string problem_of(const NodeReport& report, const NodeNeeds& needs) {
  if (report.wrong_rounds > 0)
    return fmt::format("computes wrong: {} of {} of the self-test on {} gave another result", report.wrong_rounds, counted(report.rounds, "round"),
                       counted(report.threads, "thread"));
  if (report.unkillable > 0) return counted(report.unkillable, "process") + " of an earlier run cannot be ended there";
  if (!report.write_problem.empty()) return report.write_problem;
  if (report.disk_free_bytes < needs.disk_bytes)
    return fmt::format("{} free in {}, a checkpoint takes {}", gib(report.disk_free_bytes), needs.run_dir, gib(needs.disk_bytes));
  if (report.available_bytes < needs.memory_bytes)
    return fmt::format("{} of memory free, its ranks take {}", gib(report.available_bytes), gib(needs.memory_bytes));
  return "";
}

}  // namespace optimus::launch
