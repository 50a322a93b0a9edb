#pragma once
// Whether all ranks were started alike, found before a difference can make them wait for each other.

#include <string_view>

#include "optimus/comm/communicator.hpp"

namespace optimus {

/// Returns if every member has the same `text`; `what` says in messages what it is ("configuration").
///
/// Collective: over `comm`; one small reduction where all agree.
/// Errors:     ConfigError, the same on all members: which of them differ from most others (from the lowest, where there is no majority), and the
///             first lines in which the lowest of those differs, expected and found. A line "[name]" is a heading for those below it.
void agree_on(Communicator& comm, std::string_view what, std::string_view text);

}  // namespace optimus
