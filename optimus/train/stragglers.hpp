#pragma once
// Ranks that take longer than their like for the same work.

#include <array>
#include <string_view>
#include <vector>

#include "optimus/comm/communicator.hpp"
#include "optimus/train/step_record.hpp"

namespace optimus {

/// Parts of a step in which a rank works for itself; what it waits for others is left out.
enum class Work { kData, kForwardBackward, kReduce, kUpdate, kCheckpoint };
inline constexpr std::array<std::string_view, 5> kWorkNames = {"data", "forward_backward", "reduce", "update", "checkpoint"};
using WorkSeconds = std::array<double, kWorkNames.size()>;

/// A rank whose like need less.
struct Straggler {
  Index rank = 0;
  Work work = Work::kData;
  double seconds = 0, median_s = 0;
};

/// Ranks are compared with those of the same pipeline stage, which do the same work; where a stage is one rank, with all. The median of an even number is the lower
/// of the middle two: of two ranks the slower one can be named. `seconds` by rank, `stage` of each.
/// A rank is slow if it took more than `factor` times the median, and at least `least_s` of that work more.
[[nodiscard]] std::vector<Straggler> find_stragglers(const std::vector<WorkSeconds>& seconds, const std::vector<Index>& stage, double factor,
                                                     const WorkSeconds& least_s);

/// Of every rank, on all of them.  Collective: over `world`.
[[nodiscard]] std::vector<WorkSeconds> gather_work(Communicator& world, const WorkSeconds& mine);

}  // namespace optimus
