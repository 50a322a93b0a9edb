#pragma once
// What a run would take, from the same descriptions the trainer uses; nothing of that size is allocated and no data is read.

#include <string>

#include "optimus/train/run_config.hpp"

namespace optimus {

/// Sizes of a run on `world` ranks. Bytes are those of the rank that needs most.
struct DryRun {
  Index world = 1, dp = 1, pp = 1, ep = 1, tp = 1;
  Index micro_batches = 1;  ///< a rank's, in one step
  Index parameters = 0, active_parameters = 0, tokens_per_step = 0;
  double flops_per_token = 0;  ///< forward and backward, without recomputation
  struct Bytes {
    Index weights = 0, gradients = 0, master = 0, moments = 0, activations = 0, buffers = 0, program = 0;
    [[nodiscard]] Index sum() const { return weights + gradients + master + moments + activations + buffers + program; }
  };
  Bytes bytes_per_rank;
};

[[nodiscard]] DryRun plan_run(const RunConfig& config, Index world);
/// For people: a table, then the resolved configuration.
[[nodiscard]] std::string dry_run_text(const DryRun& run, const RunConfig& config);
/// One JSON object in a line.
[[nodiscard]] std::string dry_run_json(const DryRun& run);

}  // namespace optimus
