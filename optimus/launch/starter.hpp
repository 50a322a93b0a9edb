#pragma once
// The site's own way to start ranks: Open MPI's or MPICH's mpirun, Slurm's srun, PALS' mpiexec.

#include <string>
#include <vector>

#include "optimus/launch/hosts.hpp"

namespace optimus::launch {

enum class StarterKind { kOpenMpi, kHydra, kSlurm, kPals };

struct Starter {
  StarterKind kind = StarterKind::kOpenMpi;
  std::string program, version;
};

/// Which starter a program is, from what it says with --version.  Errors: ConfigError if it is none that we know.
[[nodiscard]] Starter identify_starter(const std::string& program, const std::string& version_text);

/// `wanted` (a name or path), or what there is: srun inside a Slurm job, else mpirun, else mpiexec.  Errors: ConfigError.
[[nodiscard]] Starter find_starter(const std::string& wanted, bool is_in_slurm);

/// One start.
struct StartRequest {
  std::vector<Host> nodes;
  Index ranks_per_node = 1;
  double watchdog_s = 600;         ///< of the run; a connection of the starter's daemons that is cut off is given up earlier
  std::string agent;               ///< in place of the starter's ssh; empty: leave it
  std::string hosts_file;          ///< path of the file with hosts_text()
  std::vector<std::string> extra;  ///< options of the user
  std::vector<std::string> command;
  bool is_root = false;
};

/// The list of nodes in the starter's own format; ranks fill one node after another.
[[nodiscard]] std::string hosts_text(const Starter& starter, const StartRequest& request);
[[nodiscard]] std::vector<std::string> start_command(const Starter& starter, const StartRequest& request);

/// What a starter said about the rank that ended badly.
struct StarterReport {
  Index rank = -1;   ///< -1: not said
  std::string host;  ///< empty: not said
  int signal = 0;    ///< that ended it; 0: none, or not said
  bool is_lost_node = false;
  [[nodiscard]] bool has_culprit() const { return rank >= 0 || !host.empty(); }
};

/// Reads that out of the starter's standard error.
[[nodiscard]] StarterReport read_starter_report(const std::string& text);

}  // namespace optimus::launch
