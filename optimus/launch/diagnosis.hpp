#pragma once
// From what is known after a run has ended to what kind of failure it was and which nodes are to blame. No files, no processes.

#include <string>
#include <vector>

#include "optimus/base/error.hpp"
#include "optimus/launch/run_files.hpp"
#include "optimus/launch/starter.hpp"

namespace optimus::launch {

/// How one start of the run ended.
struct RunEnd {
  int code = 0;                   ///< of the starter; 128 + N if signal N ended it
  bool was_stuck = false;         ///< the supervisor ended it for want of progress
  bool was_nobody_left = false;   ///< the supervisor ended a starter that had outlived its ranks
  Index last_step = 0;            ///< in metrics.jsonl
  std::vector<Failure> failures;  ///< that came in this start
  StarterReport report;
  std::string last_words;  ///< of what starter and ranks said, the lines that tell most
};

/// A node that the run used, and what it calls itself.
struct UsedNode {
  std::string host, own_name;
};

struct Diagnosis {
  ExitCode code = ExitCode::kFailure;  ///< of the program's own family: what the supervisor ends with if it gives up now
  Index step = 0;                      ///< in which it failed
  std::vector<std::string> blamed;     ///< hosts, as in the list
  Index rank = -1;                     ///< the first to blame; -1: not known
  std::string kind, text;              ///< for the log: what happened, where
};

/// `nodes` in the order in which ranks fill them, `ranks_per_node` each.
///
/// A rank that the starter saw killed is the cause, whatever the others then missed; otherwise the first line in failures.jsonl is, but for a rank that says
/// itself that it was stuck, and with every other rank of that step that had NaN or Inf itself. A line about a checkpoint that was not written is none.
[[nodiscard]] Diagnosis diagnose(const RunEnd& end, const std::vector<UsedNode>& nodes, Index ranks_per_node);

}  // namespace optimus::launch
