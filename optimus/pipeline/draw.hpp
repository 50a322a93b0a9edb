#pragma once
// A schedule as a picture in text.

#include <string>

#include "optimus/pipeline/simulate.hpp"

namespace optimus::pipeline {

/// One line a stage, time to the right, idle time as dots; longer than `columns`, the picture goes on in a further block of lines.
///
///   stage 0  F0 F1 ...B0--- ...
///
/// An action is as wide as it is long, beginning with its label(). Columns are as fine as labels need; where times differ so much that the longest action
/// would be wider than 40 columns, short ones lose the end of their labels.
[[nodiscard]] std::string draw(const Schedule& schedule, const StageTimes& times, Index columns = 110);

}  // namespace optimus::pipeline
