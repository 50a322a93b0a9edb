#pragma once
// Starts a run and keeps it going: watches, cleans up, replaces nodes, starts again.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "optimus/base/error.hpp"
#include "optimus/launch/nodes.hpp"
#include "optimus/launch/policy.hpp"
#include "optimus/launch/starter.hpp"

namespace optimus::launch {

/// What the supervisor has to know about the run; whoever can read its configuration fills this in.
struct RunFacts {
  std::string run_dir;  ///< absolute
  double watchdog_s = 600;
  std::vector<int> save_signals;  ///< on which ranks save and end; empty: on none
  Index bytes_per_rank = 0, checkpoint_bytes = 0;
  std::vector<std::string> command;           ///< the run's own command line, this program's path first
  std::vector<std::string> command_to_go_on;  ///< the same once the run has saved: it resumes from its own checkpoints, whatever the first start was told
  std::vector<std::string> environment;       ///< of the ranks, "NAME=value"
};

struct LaunchOptions {
  std::vector<Host> hosts;
  World world;
  Starter starter;
  std::vector<std::string> starter_options;
  Agent agent;
  std::string starter_agent;  ///< what the starter gets in place of its ssh; empty: nothing
  double probe_limit_s = 60, self_test_s = 1;
  PolicyOptions policy;
};

/// How it ended: an exit code, or the signal that asked for the end at once.
struct LaunchEnd {
  ExitCode code = ExitCode::kDone;
  std::optional<int> signal;
};

/// Supervises until the run is done or cannot go on.
///
/// Writes run_dir/launch.log, lines of its own kinds into failures.jsonl, and run_dir/launch-hosts for the starter. The first of SIGTERM, SIGINT, SIGHUP and
/// SIGUSR1 makes the ranks save and end, the second ends them at once. No process of the run is left on a node that can be reached.
/// Errors: ConfigError if another supervisor works in the folder; FileError if that cannot be made. Later ones end in the log, and in the code.
[[nodiscard]] LaunchEnd supervise(const RunFacts& facts, LaunchOptions options);

}  // namespace optimus::launch
