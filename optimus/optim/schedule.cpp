#include "optimus/optim/schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace optimus {
namespace {

double interpolate(double from, double to, double x) { return from + (to - from) * std::clamp(x, 0.0, 1.0); }

double fraction(Index done, Index all) { return all > 0 ? static_cast<double>(done) / static_cast<double>(all) : 1.0; }

}  // namespace

double learning_rate(const OptimizerConfig& config, Index step, Index steps) {
  step = std::clamp<Index>(step, 1, std::max<Index>(steps, 1));
  if (step <= config.warmup_steps) return interpolate(config.lr_min, config.lr, fraction(step, config.warmup_steps));
  const double x = fraction(step - config.warmup_steps, steps - config.warmup_steps);
  if (config.schedule == "cosine") return interpolate(config.lr_min, config.lr, (1.0 + std::cos(std::numbers::pi * x)) / 2.0);
  if (config.schedule == "linear") return interpolate(config.lr, config.lr_min, x);
  if (config.schedule == "wsd" && config.decay_steps > 0)
    return interpolate(config.lr, config.lr_min, fraction(step - (steps - config.decay_steps), config.decay_steps));
  return config.lr;
}

}  // namespace optimus
