#pragma once
// A schedule in time: when each action would start and end if stages took the times given. For plans, pictures and tests.

#include <string>
#include <vector>

#include "optimus/pipeline/schedule.hpp"

namespace optimus::pipeline {

/// Of one micro-batch through one chunk, equal for all chunks; any unit. A whole backward takes backward_input + backward_weight.
struct StageTimes {
  double forward = 1, backward_input = 1, backward_weight = 1;
  double transfer = 0;  ///< from the end of an action to the start of what it feeds on another stage; takes no time of either stage
};

struct Span {
  double start = 0, end = 0;
};

struct Simulation {
  std::vector<std::vector<Span>> spans;  ///< as Schedule::actions
  double total = 0;                      ///< end of the last action
  double bubble_fraction = 0;            ///< part of stages × total in which stages are idle
};

/// Each action starts as soon as its stage is free and what it needs is there.
/// Errors:  ConfigError for times that are negative, not finite or all 0; InternalError for a schedule that deadlocks.
[[nodiscard]] Simulation simulate(const Schedule& schedule, const StageTimes& times);

/// Simulation::bubble_fraction as a formula, for transfers that take no time.
///
///   gpipe, 1f1b    (P-1) / (M + P-1)
///   interleaved    (P-1) / (VM + P-1)
///   zero_bubble    b / (M (F+B+W) + b)  with  b = (P-1)(F+B) - (min(M, P)-1) W,  for W <= B; for M >= P that is b = (P-1)(F+B-W)
///   forward        (P-1) / (VM + P-1)   for M a multiple of P, or V = 1
///
/// Source: arXiv:2104.04473, arXiv:2401.10241.  Errors: ConfigError for an unknown name, or times as simulate().
[[nodiscard]] double bubble_formula(const Schedule& schedule, const StageTimes& times);

}  // namespace optimus::pipeline
