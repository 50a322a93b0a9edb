#pragma once
// Text of all ranks at one of them, up a tree: no rank talks to more than log2(size) others. Internal to this folder.

#include <string>
#include <string_view>

#include "optimus/comm/communicator.hpp"

namespace optimus {

/// The lines of all members in member order, each ended by a newline, on member 0; nothing that matters on the others. A line may not hold newlines.
///
/// Collective: over `comm`; member r receives from r + 1, r + 2, r + 4, … as long as r is a multiple of twice that.
[[nodiscard]] std::string gather_lines(Communicator& comm, std::string_view line);

}  // namespace optimus
