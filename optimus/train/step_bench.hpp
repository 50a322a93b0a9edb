#pragma once
// How fast a step is, as a fraction of what this machine can do, with tokens made up on the spot.

#include <string>
#include <vector>

#include "optimus/backend/backend.hpp"
#include "optimus/comm/communicator.hpp"
#include "optimus/comm/mesh.hpp"
#include "optimus/train/batch.hpp"
#include "optimus/train/run_config.hpp"

namespace optimus {

/// One part of a step.
struct BenchPhase {
  std::string name;
  double seconds = 0;
  double rate = 0;         ///< operations or bytes a second
  bool is_compute = true;  ///< operations, as a fraction of the arithmetic peak; else bytes, of the measured copy rate
  double fraction = 0;
};

/// Medians over the measured steps, of all ranks together.
struct StepBench {
  Index tokens = 0;
  double step_s = 0, tokens_per_s = 0, flops_per_s = 0, peak_flops_per_s = 0, fraction_of_peak = 0;
  std::vector<BenchPhase> phases;
};

/// The configuration of a named benchmark ("small", "mula-7b-l2"), or of a TOML file. `overrides`: as --set.
/// Errors: ConfigError as for any configuration.
[[nodiscard]] RunConfig bench_config(const std::string& name, Index ranks, std::vector<std::string> overrides = {});

/// The rows of `rank`'s part of a global batch of random tokens: the same on ranks that share their data.
[[nodiscard]] Batch made_up_batch(const RunConfig& config, const Mesh& mesh, Index rank);

/// Runs at least five steps and three seconds after two to warm up. `threads`: those of `backend`, for the peak.
/// Collective: over `world`.
[[nodiscard]] StepBench bench_step(const RunConfig& config, Communicator& world, Backend& backend, int threads);

/// For people.
[[nodiscard]] std::string bench_text(const StepBench& bench);
/// One JSON object in a line.
[[nodiscard]] std::string bench_json(const StepBench& bench);

}  // namespace optimus
