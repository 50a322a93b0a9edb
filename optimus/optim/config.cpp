#include "optimus/optim/config.hpp"

#include <fmt/format.h>

#include "optimus/base/counted.hpp"

namespace optimus {

void validate(const OptimizerConfig& config, Problems& problems) {
  if (config.betas.size() != 2)
    problems.add("optimizer.betas", fmt::format("has {}; AdamW needs two, one for each moment", counted(config.betas.size(), "number")));
  for (const double beta : config.betas) {
    if (beta >= 1.0) problems.add("optimizer.betas", fmt::format("{} must be below 1: a moment that never forgets cannot be corrected for its start", beta));
  }
  if (config.schedule != "wsd" && config.decay_steps > 0) {
    problems.add("optimizer.decay_steps",
                 fmt::format("{} has no meaning for schedule \"{}\"; leave it out, or set optimizer.schedule = \"wsd\"", config.decay_steps, config.schedule));
  }
}

}  // namespace optimus
