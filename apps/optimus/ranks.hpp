#pragma once
// From a process to a group of ranks: MPI where an MPI starter started us, alone otherwise.

#include <functional>
#include <string_view>

#include "optimus/base/error.hpp"
#include "optimus/comm/communicator.hpp"

namespace optimus {

/// The variable by which a supervisor tells ranks how many seconds they may wait for each other before they know their configuration.
inline constexpr const char* kStartLimit = "OPTIMUS_START_LIMIT_S";

/// What an action may use.
struct Ranks {
  Communicator& world;
  std::function<void(double seconds)> set_time_limit;  ///< of collectives
};

/// Runs `action` on every rank. What one rank throws ends all of them with its exit code; rank 0 prints the message.
/// `command`: what was asked for, as far as all ranks must have been asked the same ("pretrain --dry-run").
/// Errors: ConfigError before anything else, if ranks were started with other commands or are other builds of this program.
[[nodiscard]] ExitCode run_on_ranks(std::string_view command, const std::function<ExitCode(const Ranks&)>& action);

}  // namespace optimus
