#pragma once
// Optimizer updates on flat arrays. Documented in optimus/ops/update.hpp.

#include "optimus/tensor/view.hpp"

namespace optimus {

/// One AdamW step's numbers. Decay and bias corrections are folded in by the caller's step count.
struct AdamWStep {
  double lr = 0, beta1 = 0.9, beta2 = 0.99, eps = 1e-8, weight_decay = 0;
  Index step = 1;             ///< 1 for the first update: bias corrections are 1 - beta^step
  double gradient_scale = 1;  ///< multiplied into every gradient first (clipping)
};

class UpdateKernels {
 public:
  virtual ~UpdateKernels() = default;
  virtual void adamw_update(const AdamWStep& step, ConstView gradient, View master, View exp_avg, View exp_avg_sq, View weight) = 0;
  virtual void sgd_update(double lr, double weight_decay, double gradient_scale, ConstView gradient, View master, View weight) = 0;
  [[nodiscard]] virtual double sum_squares(ConstView x) = 0;
};

}  // namespace optimus
