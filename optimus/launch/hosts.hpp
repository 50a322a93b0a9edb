#pragma once
// The machines that a job may use, from a file or from what the batch system says.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "optimus/base/index.hpp"

namespace optimus::launch {

/// One machine. `slots`: ranks it is meant for; 0: not said.
struct Host {
  std::string name;
  Index slots = 0;
  friend bool operator==(const Host&, const Host&) = default;
};

/// Lines "host", "host slots=N" or "host:N"; "#" starts a comment; other settings of a line (max_slots=…) are left alone. A host that comes again adds its slots.
/// `file` is what messages call it.  Errors: ConfigError naming the line, or if there is no host at all.
[[nodiscard]] std::vector<Host> parse_hostfile(std::string_view text, const std::string& file);

/// PBS: one line for each slot, hosts repeated.  Errors: ConfigError if there is none.
[[nodiscard]] std::vector<Host> parse_nodefile(std::string_view text, const std::string& file);

/// Slurm's short form: "n[001-004,007],m[1-2]x" is n001 n002 n003 n004 n007 m1x m2x. Several brackets in a name multiply, the last one fastest.
/// Errors: ConfigError.
[[nodiscard]] std::vector<std::string> expand_host_list(std::string_view list);

/// How the world outside is asked, so that tests can answer.
struct HostQuestions {
  std::function<std::optional<std::string>(const std::string& variable)> environment;
  std::function<std::optional<std::string>(const std::string& list)> scontrol;  ///< `scontrol show hostnames LIST`, one a line; nothing if there is no scontrol
};

/// In this order: `hostfile` (if not empty), PBS_NODEFILE, SLURM_JOB_NODELIST, else this machine as "localhost".
/// `source` gets the name of what was used, for the log.  Errors: ConfigError.
[[nodiscard]] std::vector<Host> find_hosts(const std::string& hostfile, const HostQuestions& ask, std::string& source);

}  // namespace optimus::launch
