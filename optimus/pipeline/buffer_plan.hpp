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

/// Buffers of every stage: as many receives as messages that would lie ready if stages took equal times, so that no sender has to wait for the receiver,
/// and as many as it takes that sends which end only once their receive is posted, a ring of them or (without overlap) one at a time, never deadlock.
[[nodiscard]] std::vector<StageBuffers> plan_buffers(const Schedule& schedule, bool overlap);

}  // namespace optimus::pipeline
