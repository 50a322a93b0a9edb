#pragma once
// What is written down about one optimizer step.

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "optimus/base/index.hpp"

namespace optimus {

/// Parts of a step's wall time.
enum class Phase { kData, kForwardBackward, kReduce, kUpdate, kValidation, kCheckpoint };
inline constexpr std::array<std::string_view, 6> kPhaseNames = {"data", "forward_backward", "reduce", "update", "validation", "checkpoint"};

/// Seconds of each phase.
using PhaseSeconds = std::array<double, kPhaseNames.size()>;

/// A rank named in metrics.jsonl because it works slower than its like.
struct SlowRank {
  Index rank = 0;
  std::string host, phase;
  double seconds = 0, median_s = 0;  ///< of a step, on average since the last look
};

/// One line of metrics.jsonl. Non-finite numbers are written as null.
struct StepRecord {
  Index step = 0, epoch = 0, tokens = 0;
  double lm_loss = 0, aux_loss = 0, z_loss = 0;  ///< apart; the optimised loss is their weighted sum
  double lr = 0, weight_decay = 0, grad_norm = 0, clip_coefficient = 1;
  bool skipped = false;
  Index nonfinite_steps = 0;
  std::string sample_ids_hash;
  Index first_sample = 0;  ///< position of the step's first row in the endless order
  double tokens_per_s = 0, flops_per_s = 0, mfu = 0, step_s = 0;
  PhaseSeconds phase_s{};
  std::vector<double> expert_load_max, expert_load_min;  ///< per layer, 1 = balanced
  std::vector<std::vector<Index>> tokens_per_expert;     ///< [layer][expert]; empty: not asked for
  std::optional<double> validation_loss;
  std::vector<SlowRank> stragglers;

  /// As one line of JSON, without the line end.
  [[nodiscard]] std::string json() const;
};

/// Fills expert_load_max and expert_load_min from rows by layer and expert, `counts_LE` [layers * experts].
void set_expert_load(StepRecord& record, const std::vector<Index>& counts_LE, Index experts);

}  // namespace optimus
