#include <cmath>

#include "optimus/backend/ref/kernels.hpp"
#include "optimus/backend/ref/storage.hpp"

namespace optimus::ref {

void RefBackend::adamw_update(const AdamWStep& step, ConstView gradient, View master_view, View exp_avg, View exp_avg_sq, View weight) {
  const std::vector<double> gradient_of = load(gradient);
  std::vector<double> master = load(master_view), m = load(exp_avg), v = load(exp_avg_sq);
  const double correction_m = 1 - std::pow(step.beta1, static_cast<double>(step.step)), correction_v = 1 - std::pow(step.beta2, static_cast<double>(step.step));
  for (std::size_t i = 0; i < master.size(); ++i) {
    const double g = step.gradient_scale * gradient_of[i];
    m[i] = step.beta1 * m[i] + (1 - step.beta1) * g;
    v[i] = step.beta2 * v[i] + (1 - step.beta2) * g * g;
    master[i] = master[i] * (1 - step.lr * step.weight_decay) - step.lr * (m[i] / correction_m) / (std::sqrt(v[i] / correction_v) + step.eps);
  }
  store(exp_avg, m);
  store(exp_avg_sq, v);
  store(master_view, master);
  convert(master_view, weight);  // of the stored master, which is already rounded to its own type
}

void RefBackend::sgd_update(double lr, double weight_decay, double gradient_scale, ConstView gradient, View master_view, View weight) {
  const std::vector<double> gradient_of = load(gradient);
  std::vector<double> master = load(master_view);
  for (std::size_t i = 0; i < master.size(); ++i) master[i] = master[i] * (1 - lr * weight_decay) - lr * gradient_scale * gradient_of[i];
  store(master_view, master);
  convert(master_view, weight);
}

double RefBackend::sum_squares(ConstView x) {
  double sum = 0;
  for (const double value : load(x)) sum += value * value;
  return sum;
}

}  // namespace optimus::ref
