#pragma once
// Asking nodes: the same short command on each of them, here directly, elsewhere through a launch agent, always with a time limit.

#include <optional>
#include <string>
#include <vector>

#include "optimus/launch/node_report.hpp"

namespace optimus::launch {

/// How a command gets to a node.
struct Agent {
  std::string program;  ///< called as `program HOST COMMAND LINE`; empty: ssh, without questions
  std::string self;     ///< this program's own path, the same on all nodes
};

/// Whether `host` is the machine that we are on.
[[nodiscard]] bool is_this_machine(const std::string& host);

/// The command that runs `words` on `host`.
[[nodiscard]] std::vector<std::string> command_on(const Agent& agent, const std::string& host, const std::vector<std::string>& words);

/// A node after it was asked.
struct NodeHealth {
  std::string host;     ///< as in the list of hosts
  std::string problem;  ///< why it cannot be used; empty if it can
  bool lacks_run_folder = false;
  NodeReport report;  ///< of a node that answered
};

/// Examines all `hosts` beside each other (node_report.hpp). A node that does not answer within `limit_s` has that as its problem.
[[nodiscard]] std::vector<NodeHealth> examine_nodes(const Agent& agent, const std::vector<std::string>& hosts, const NodeNeeds& needs, double limit_s);

/// What a node has counted: the last line of its answer; login scripts may print others before. Nothing if that is no number.
[[nodiscard]] std::optional<Index> parse_count(const std::string& answer);

struct SignalAnswers {
  Index reached = 0;     ///< processes
  Index unanswered = 0;  ///< nodes that did not say how many they have
};

/// Sends a signal to every marked process on `hosts`; 0 counts them.
SignalAnswers signal_nodes(const Agent& agent, const std::vector<std::string>& hosts, const std::string& mark, int signal, double limit_s);

/// Kills every marked process on `hosts`. Returns a line for each node where there were some, or that could not be asked.
[[nodiscard]] std::vector<std::string> clean_nodes(const Agent& agent, const std::vector<std::string>& hosts, const std::string& mark, double limit_s);

}  // namespace optimus::launch
