#pragma once
// How many messages a stage has memory for, worked out from the schedule before anything runs. Private to this folder.

#include <vector>

#include "optimus/pipeline/route.hpp"

namespace optimus::pipeline {

/// Of one stage in one direction. Message n of the stage, in the order it takes or sends them, uses buffer n mod count.
struct BufferCount {
  Index receives = 0;  ///< posted ahead, the one in use included
  Index sends = 0;     ///< filled or under way; none where messages stay on the stage
};
struct StageBuffers {
  BufferCount forward, backward;
  [[nodiscard]] BufferCount& of(Direction direction) { return direction == Direction::kForward ? forward : backward; }
  [[nodiscard]] const BufferCount& of(Direction direction) const { return direction == Direction::kForward ? forward : backward; }
};

/// Buffers of every stage. Receives: as many as messages would lie ready if stages took equal times, so that no sender has to wait; without overlap one; and as
/// many more as it takes that nothing deadlocks even where a send ends only once its receive is posted. Sends: two, without overlap one that is waited for.
[[nodiscard]] std::vector<StageBuffers> plan_buffers(const Schedule& schedule, bool overlap);

}  // namespace optimus::pipeline
