// Optimizer updates and norms on flat arrays.

#include <cmath>

#include "optimus/backend/cpu/backend_impl.hpp"
#include "optimus/backend/cpu/parallel.hpp"

namespace optimus::cpu {
namespace {

constexpr Index kElementGrain = 16384;
/// Elements squared and added up together: fixed, so the sum does not depend on the number of threads.
constexpr Index kSumBlock = 32768;

}  // namespace

void CpuBackend::adamw_update(const AdamWStep& step, ConstView gradient, View master, View exp_avg, View exp_avg_sq, View weight) {
  const double correction1 = 1.0 - std::pow(step.beta1, static_cast<double>(step.step)),
               correction2 = 1.0 - std::pow(step.beta2, static_cast<double>(step.step));
  AdamWArgs args{};
  args.gradient = gradient.data();
  args.master = master.as<float>();
  args.exp_avg = exp_avg.as<float>();
  args.exp_avg_sq = exp_avg_sq.as<float>();
  args.weight = weight.data();
  args.gradient_scale = static_cast<float>(step.gradient_scale);
  args.beta1 = static_cast<float>(step.beta1);
  args.beta2 = static_cast<float>(step.beta2);
  args.one_minus_beta1 = static_cast<float>(1.0 - step.beta1);
  args.one_minus_beta2 = static_cast<float>(1.0 - step.beta2);
  args.keep = static_cast<float>(1.0 - step.lr * step.weight_decay);
  args.step_size = static_cast<float>(step.lr / correction1);
  args.inverse_sqrt_correction2 = static_cast<float>(1.0 / std::sqrt(correction2));
  args.eps = static_cast<float>(step.eps);
  parallel_ranges(threads_, master.count(), kElementGrain,
                  [&](Index begin, Index end) { kernels_.update.adamw[element(gradient)][element(weight)](args, begin, end); });
}

void CpuBackend::sgd_update(double lr, double weight_decay, double gradient_scale, ConstView gradient, View master, View weight) {
  AdamWArgs args{};
  args.gradient = gradient.data();
  args.master = master.as<float>();
  args.weight = weight.data();
  args.keep = static_cast<float>(1.0 - lr * weight_decay);
  args.step_size = static_cast<float>(lr * gradient_scale);
  parallel_ranges(threads_, master.count(), kElementGrain,
                  [&](Index begin, Index end) { kernels_.update.sgd[element(gradient)][element(weight)](args, begin, end); });
}

double CpuBackend::sum_squares(ConstView x) {
  const Index count = x.count(), num_blocks = ceil_div(count, kSumBlock), bytes = dtype_bytes(x.dtype());
  auto* partial_B = reinterpret_cast<double*>(shared_scratch(num_blocks * 8));
  parallel_ranges(threads_, num_blocks, 1, [&](Index first, Index last) {
    for (Index block = first; block < last; ++block)
      partial_B[block] = kernels_.update.sum_squares[element(x)](x.data() + block * kSumBlock * bytes, std::min(kSumBlock, count - block * kSumBlock));
  });
  double total = 0;
  for (Index block = 0; block < num_blocks; ++block) total += partial_B[block];
  return total;
}

}  // namespace optimus::cpu
