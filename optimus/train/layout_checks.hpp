#pragma once
// Whether model and batch can be shared out as `[parallel]` asks.

#include "optimus/config/source.hpp"
#include "optimus/train/run_config.hpp"

namespace optimus {

/// Adds every reason why `ranks` ranks cannot have this layout; fields that are faulty themselves are left out of it. True if there is none and nothing was left
/// out.
bool check_layout(const RunConfig& config, const ConfigSource& source, Index ranks, Problems& problems);

}  // namespace optimus
