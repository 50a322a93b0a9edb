#pragma once
// Whether the failures that `[[faults]]` asks for can happen.

#include "optimus/train/run_config.hpp"

namespace optimus {

/// What is known to be right when faults are looked at.
struct FaultScope {
  Index ranks = 1;
  bool has_model = true, has_layout = true;
};
/// Adds each fault that would do nothing: a rank or a parameter that there is not, or a parameter that the rank does not hold.
void check_faults(const RunConfig& config, const FaultScope& scope, Problems& problems);

}  // namespace optimus
