#pragma once
// The group of one rank: what a program uses that was started alone. No MPI anywhere near it.

#include <memory>
#include <string>

#include "optimus/comm/communicator.hpp"

namespace optimus {

/// A group whose only member is this process; every collective is a copy.
///
/// send() to member 0 keeps a copy until a receive() with the same tag takes it.
[[nodiscard]] std::unique_ptr<Communicator> make_self_communicator(std::string name = "world");

}  // namespace optimus
