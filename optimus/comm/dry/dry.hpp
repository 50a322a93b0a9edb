#pragma once
// A group of any size that moves nothing: with the dry backend and a measuring Arena, one process plans what a step of a large run needs.

#include <memory>
#include <string>

#include "optimus/comm/communicator.hpp"

namespace optimus {

/// Member `rank` of a group of `size`, without the others.
///
/// Every collective checks its arguments as the real ones do, touches no memory and returns at once: views may have null data, results stay
/// what they were. Requests are done when they start. subgroup() gives such a group too; split_by_node() takes all members for one node;
/// split() is refused, because what the others would pass is not known.
///
/// Errors: ShapeError as everywhere; UnsupportedError from split(); ConfigError unless 0 <= rank < size.
[[nodiscard]] std::unique_ptr<Communicator> make_dry_communicator(Index size, Index rank, std::string name = "world");

}  // namespace optimus
