#include "optimus/launch/nodes.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <charconv>

#include "optimus/base/counted.hpp"
#include "optimus/base/error.hpp"
#include "optimus/launch/process.hpp"

namespace optimus::launch {
namespace {

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ' || text.back() == '\r')) text.pop_back();
  return text;
}

std::vector<CommandResult> call(const Agent& agent, const std::vector<std::string>& hosts, const std::vector<std::string>& words, double limit_s) {
  std::vector<std::vector<std::string>> commands;
  for (const std::string& host : hosts) commands.push_back(command_on(agent, host, words));
  return run_commands(commands, limit_s);
}

/// Why a call brought nothing; empty if it did.
std::string call_problem(const CommandResult& result, double limit_s) {
  if (result.is_timed_out) return fmt::format("does not answer within {} s", limit_s);
  if (result.code == 0) return "";
  const std::string words = trimmed(result.err);
  return fmt::format("cannot be asked (exit code {}){}{}", result.code, words.empty() ? "" : ": ", words.substr(0, 300));
}

NodeHealth judge(const std::string& host, const CommandResult& result, const NodeNeeds& needs, double limit_s) {
  NodeHealth health{.host = host, .problem = call_problem(result, limit_s)};
  if (!health.problem.empty()) return health;
  try {
    health.report = parse_node_report(result.out);
    health.problem = problem_of(health.report, needs);
    health.lacks_run_folder = lacks_run_folder(health.report, needs);
  } catch (const Error& error) {
    health.problem = error.what();
  }
  return health;
}

}  // namespace

bool is_this_machine(const std::string& host) {
  std::array<char, 256> own{};
  ::gethostname(own.data(), own.size() - 1);
  const std::string name = own.data();
  return host == "localhost" || host == "127.0.0.1" || host == name || host == name.substr(0, name.find('.'));
}

std::vector<std::string> command_on(const Agent& agent, const std::string& host, const std::vector<std::string>& words) {
  if (is_this_machine(host)) return words;
  if (!agent.program.empty()) return {agent.program, host, shell_line(words)};
  return {"ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", host, shell_line(words)};
}

std::vector<NodeHealth> examine_nodes(const Agent& agent, const std::vector<std::string>& hosts, const NodeNeeds& needs, double limit_s) {
  std::vector<std::string> words = {agent.self, "launch-node", "probe", "--dir", needs.run_dir, "--seconds", fmt::format("{}", needs.self_test_s)};
  if (!needs.mark.empty()) words.insert(words.end(), {"--mark", needs.mark});
  const auto results = call(agent, hosts, words, limit_s);
  std::vector<NodeHealth> healths;
  for (std::size_t i = 0; i < hosts.size(); ++i) healths.push_back(judge(hosts[i], results[i], needs, limit_s));
  return healths;
}

std::optional<Index> parse_count(const std::string& answer) {
  const std::string text = trimmed(answer);
  const char* begin = text.data() + text.rfind('\n') + 1;  // npos + 1: from the start
  const char* all = text.data() + text.size();
  Index count = 0;
  const auto [end, code] = std::from_chars(begin, all, count);
  return code == std::errc() && end == all && count >= 0 ? std::optional(count) : std::nullopt;
}

SignalAnswers signal_nodes(const Agent& agent, const std::vector<std::string>& hosts, const std::string& mark, int signal, double limit_s) {
  SignalAnswers answers;
  for (const CommandResult& result : call(agent, hosts, {agent.self, "launch-node", "signal", "--mark", mark, "--number", std::to_string(signal)}, limit_s)) {
    const auto count = result.code == 0 ? parse_count(result.out) : std::nullopt;
    answers.reached += count.value_or(0);
    if (!count) ++answers.unanswered;
  }
  return answers;
}

std::vector<std::string> clean_nodes(const Agent& agent, const std::vector<std::string>& hosts, const std::string& mark, double limit_s) {
  const auto results = call(agent, hosts, {agent.self, "launch-node", "clean", "--mark", mark}, limit_s);
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const std::string problem = call_problem(results[i], limit_s);
    const auto count = parse_count(results[i].out);
    if (!problem.empty()) lines.push_back(fmt::format("{} {}: processes may be left there", hosts[i], problem));
    else if (!count) lines.push_back(fmt::format("{} does not say how many processes were left: some may still be", hosts[i]));
    else if (*count > 0) lines.push_back(fmt::format("{}: {} of the run, still there, killed", hosts[i], counted(*count, "process")));
  }
  return lines;
}

}  // namespace optimus::launch
