#pragma once
// The ranks a test program runs on. All of them run the same tests in the same order; they meet after each.

#include "optimus/comm/communicator.hpp"
#include "optimus/comm/mpi/environment.hpp"

namespace optimus::test {

/// All ranks. Waits end after 30 s unless a test sets another limit (and sets this one again).
[[nodiscard]] Communicator& world();
[[nodiscard]] MpiEnvironment& mpi();
inline constexpr double kTimeLimit = 30;

}  // namespace optimus::test
