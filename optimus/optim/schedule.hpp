#pragma once
// Learning rate by step.

#include "optimus/optim/config.hpp"

namespace optimus {

/// Learning rate of step `step` (1 … steps) of a run of `steps`.
///
///   warm-up, step <= warmup_steps:  lr_min + (lr - lr_min) * step / warmup_steps
///   after it, with x = (step - warmup_steps) / (steps - warmup_steps) clamped to [0, 1]:
///   cosine:   lr_min + (lr - lr_min) * (1 + cos(pi x)) / 2;   linear: lr + (lr_min - lr) * x;   constant: lr
///   wsd:      lr until steps - decay_steps, then linear to lr_min at `steps`
/// Past the end the value of the last step holds.
[[nodiscard]] double learning_rate(const OptimizerConfig& config, Index step, Index steps);

}  // namespace optimus
