#include "optimus/launch/starter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "optimus/base/error.hpp"
#include "optimus/base/timer.hpp"
#include "optimus/launch/process.hpp"

namespace optimus::launch {
namespace {

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

bool has_option(const StartRequest& request, const std::string& option) {
  return std::any_of(request.extra.begin(), request.extra.end(), [&](const std::string& word) { return word.starts_with(option); });
}

Index ranks(const StartRequest& request) { return static_cast<Index>(request.nodes.size()) * request.ranks_per_node; }

std::vector<std::string> open_mpi(const StartRequest& r) {
  std::vector<std::string> words = {"-n", std::to_string(ranks(r)), "--hostfile", r.hosts_file};
  // Ranks choose their threads themselves, from the processors that they may use.
  if (!has_option(r, "--bind-to")) words.insert(words.end(), {"--bind-to", "none"});
  if (std::any_of(r.nodes.begin(), r.nodes.end(), [&](const Host& node) { return node.slots > 0 && node.slots < r.ranks_per_node; }))
    words.insert(words.end(), {"--map-by", fmt::format("ppr:{}:node", r.ranks_per_node), "--oversubscribe"});
  if (!r.agent.empty()) words.insert(words.end(), {"--mca", "plm", "rsh", "--mca", "plm_rsh_agent", r.agent});
  if (!has_option(r, "oob_tcp_keepalive")) {
    // A daemon on a node that is cut off ends its ranks and itself. Left to the defaults it is there for eight minutes, and mpirun waits as long.
    const auto part_s = [&](double part) { return std::to_string(static_cast<Index>(std::max(1.0, waiting_time(part * r.watchdog_s).count()))); };
    words.insert(words.end(), {"--mca", "oob_tcp_keepalive_time", part_s(0.25), "--mca", "oob_tcp_keepalive_intvl", part_s(0.125), "--mca",
                               "oob_tcp_keepalive_probes", "3"});
  }
  if (r.is_root) words.emplace_back("--allow-run-as-root");
  return words;
}

std::vector<std::string> hydra(const StartRequest& r) {
  std::vector<std::string> words = {"-n", std::to_string(ranks(r)), "-f", r.hosts_file, "-ppn", std::to_string(r.ranks_per_node)};
  // As rsh, not ssh: that it calls with an option of ssh's before the host, and an agent gets the host first.
  if (!r.agent.empty()) words.insert(words.end(), {"-launcher", "rsh", "-launcher-exec", r.agent});
  return words;
}

std::vector<std::string> slurm(const StartRequest& r) {
  std::string names;
  for (const Host& node : r.nodes) names += (names.empty() ? "" : ",") + node.name;
  return {"--ntasks=" + std::to_string(ranks(r)), "--nodes=" + std::to_string(r.nodes.size()), "--nodelist=" + names,
          "--ntasks-per-node=" + std::to_string(r.ranks_per_node), "--kill-on-bad-exit=1"};
}

std::vector<std::string> pals(const StartRequest& r) {
  return {"-n", std::to_string(ranks(r)), "--ppn", std::to_string(r.ranks_per_node), "--hostfile", r.hosts_file};
}

std::vector<std::string> options_of(StarterKind kind, const StartRequest& request) {
  switch (kind) {
    case StarterKind::kOpenMpi: return open_mpi(request);
    case StarterKind::kHydra: return hydra(request);
    case StarterKind::kSlurm: return slurm(request);
    case StarterKind::kPals: return pals(request);
  }
  return {};
}

Index number(const std::ssub_match& match) { return std::strtoll(match.str().c_str(), nullptr, 10); }

}  // namespace

Starter identify_starter(const std::string& program, const std::string& text) {
  const std::string first_line = text.substr(0, text.find('\n'));
  if (has(text, "Open MPI") || has(text, "OpenRTE") || has(text, "PRRTE")) return {StarterKind::kOpenMpi, program, first_line};
  if (has(text, "HYDRA") || has(text, "Hydra")) return {StarterKind::kHydra, program, first_line};
  if (text.starts_with("slurm")) return {StarterKind::kSlurm, program, first_line};
  if (has(text, "PALS") || has(program, "pals")) return {StarterKind::kPals, program, first_line};
  throw ConfigError(fmt::format("[launch] {} is no starter that is known here (Open MPI, MPICH, Slurm, PALS); it says \"{}\". Name another with --starter",
                                program, first_line));
}

Starter find_starter(const std::string& wanted, bool is_in_slurm) {
  std::vector<std::string> names = {"mpirun", "mpiexec"};
  if (is_in_slurm) names.insert(names.begin(), "srun");
  if (!wanted.empty()) names = {wanted};
  for (const std::string& name : names) {
    const auto program = find_program(name);
    if (!program) continue;
    const CommandResult answer = run_commands({{*program, "--version"}}, 20).front();
    return identify_starter(*program, answer.out + answer.err);
  }
  throw ConfigError(wanted.empty() ? "[launch] there is no srun, mpirun or mpiexec in PATH; install Open MPI, load its module, or name one with --starter"
                                   : fmt::format("[launch] there is no program \"{}\"; correct --starter", wanted));
}

std::string hosts_text(const Starter& starter, const StartRequest& request) {
  std::string text;
  for (const Host& node : request.nodes) {
    const Index slots = node.slots > 0 ? std::min(node.slots, request.ranks_per_node) : request.ranks_per_node;
    if (starter.kind == StarterKind::kOpenMpi) text += fmt::format("{} slots={}\n", node.name, slots);
    else if (starter.kind == StarterKind::kHydra) text += fmt::format("{}:{}\n", node.name, request.ranks_per_node);
    else text += node.name + "\n";
  }
  return text;
}

std::vector<std::string> start_command(const Starter& starter, const StartRequest& request) {
  std::vector<std::string> words = {starter.program};
  for (const auto& part : {options_of(starter.kind, request), request.extra, request.command}) words.insert(words.end(), part.begin(), part.end());
  return words;
}

StarterReport read_starter_report(const std::string& text) {
  static const std::regex open_mpi_rank(R"(process rank (\d+) with PID \d+ on node (\S+) exited on signal (\d+))");
  static const std::regex open_mpi_node(R"(Remote daemon: +\S+ on node (\S+))");
  static const std::regex hydra_host(R"(PID \d+ RUNNING AT (\S+))"), hydra_signal(R"(EXIT STRING: [^(]*\(signal (\d+)\))");
  static const std::regex slurm_task(R"(srun: error: (\S+): task (\d+): (Killed|Segmentation fault|Aborted|Bus error))");
  static const std::regex slurm_node(R"(srun: error: .*[Nn]ode failure on (\S+))");
  std::smatch match;
  if (std::regex_search(text, match, open_mpi_rank)) return {.rank = number(match[1]), .host = match[2], .signal = static_cast<int>(number(match[3]))};
  if (std::regex_search(text, match, open_mpi_node)) return {.host = match[1], .is_lost_node = true};
  // Without a signal it says the same of a rank that ended with a code of its own, which then has said why itself.
  std::smatch signal;
  if (std::regex_search(text, match, hydra_host) && std::regex_search(text, signal, hydra_signal))
    return {.host = match[1], .signal = static_cast<int>(number(signal[1]))};
  if (std::regex_search(text, match, slurm_task)) return {.rank = number(match[2]), .host = match[1], .signal = 9};
  if (std::regex_search(text, match, slurm_node)) return {.host = match[1], .is_lost_node = true};
  return {};
}

}  // namespace optimus::launch
