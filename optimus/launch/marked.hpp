#pragma once
// Processes of a run, found by a mark in their environment, so that none is left behind.

#include <sys/types.h>

#include <string>
#include <vector>

#include "optimus/base/index.hpp"

namespace optimus::launch {

/// The variable that every rank of a supervised run has.
inline constexpr const char* kMark = "OPTIMUS_LAUNCH_ID";

/// A name for the runs in `run_dir` (an absolute path): equal for every start in it, so that what an earlier supervisor left behind is found too.
[[nodiscard]] std::string mark_of(const std::string& run_dir);

/// Processes of this machine that carry `mark`, and that this user may look at; without this process itself.
[[nodiscard]] std::vector<pid_t> marked_processes(const std::string& mark);

/// Kills those, and the local daemons of starters (orted, prted, hydra_pmi_proxy) that are their parents; waits until all are gone.
/// Returns how many there were; `left` gets those that are still there after `patience_s`.
Index kill_marked(const std::string& mark, double patience_s, Index& left);

/// Sends `signal` to each of them once, none if it is 0; returns how many there are.
Index signal_marked(const std::string& mark, int signal);

}  // namespace optimus::launch
