// Cross-entropy on a block of rows.

#include <algorithm>
#include <cmath>

#include "optimus/backend/cpu/backend_impl.hpp"
#include "optimus/backend/cpu/parallel.hpp"

namespace optimus::cpu {
namespace {

constexpr Index kRowGrain = 4;
constexpr std::int32_t kIgnoredLabel = -100;  // as in optimus/ops/loss.hpp, which this folder may not include

CrossEntropyArgs loss_args(ConstView logits_TV, ConstView labels_T, Index vocab_begin) {
  CrossEntropyArgs args{};
  args.logits = logits_TV.data();
  args.labels = labels_T.as<std::int32_t>();
  args.width = logits_TV.size(1);
  args.vocab_begin = vocab_begin;
  return args;
}

}  // namespace

void CpuBackend::cross_entropy_statistics(ConstView logits_TV, ConstView labels_T, Index vocab_begin, const SoftmaxStatistics& out) {
  CrossEntropyArgs args = loss_args(logits_TV, labels_T, vocab_begin);
  args.max = out.max_T.as<float>();
  args.sum = out.sum_T.as<float>();
  args.target = out.target_T.as<float>();
  parallel_ranges(threads_, logits_TV.size(0), kRowGrain, [&](Index begin, Index end) { kernels_.loss.statistics[element(logits_TV)](args, begin, end); });
}

void CpuBackend::combine_softmax_statistics(ConstView parts_M3T, const SoftmaxStatistics& out) {
  const auto* parts = parts_M3T.as<float>();
  const Index members = parts_M3T.size(0), T = parts_M3T.size(2);
  const auto of = [&](Index member, Index which, Index t) { return parts[(member * 3 + which) * T + t]; };
  auto *max = out.max_T.as<float>(), *sum = out.sum_T.as<float>(), *target = out.target_T.as<float>();
  for (Index t = 0; t < T; ++t) {
    max[t] = of(0, 0, t);
    for (Index m = 1; m < members; ++m) max[t] = std::max(max[t], of(m, 0, t));
    sum[t] = target[t] = 0;
    for (Index m = 0; m < members; ++m) {
      sum[t] += of(m, 1, t) * std::exp(of(m, 0, t) - max[t]);
      target[t] += of(m, 2, t);
    }
  }
}

void CpuBackend::cross_entropy_loss(const SoftmaxStatistics& statistics, ConstView labels_T, View loss_T, View lse_T) {
  const auto *max = statistics.max_T.as<float>(), *sum = statistics.sum_T.as<float>(), *target = statistics.target_T.as<float>();
  const auto* labels = labels_T.as<std::int32_t>();
  auto *loss = loss_T.as<float>(), *lse = lse_T.as<float>();
  for (Index t = 0; t < labels_T.count(); ++t) {
    lse[t] = max[t] + std::log(sum[t]);
    loss[t] = labels[t] == kIgnoredLabel ? 0.0F : lse[t] - target[t];
  }
}

void CpuBackend::cross_entropy_gradient(ConstView logits_TV, ConstView labels_T, Index vocab_begin, ConstView lse_T, double scale, View dlogits_TV) {
  CrossEntropyArgs args = loss_args(logits_TV, labels_T, vocab_begin);
  args.lse = lse_T.as<float>();
  args.scale = static_cast<float>(scale);
  args.dlogits = dlogits_TV.data();
  parallel_ranges(threads_, logits_TV.size(0), kRowGrain,
                  [&](Index begin, Index end) { kernels_.loss.gradient[element(logits_TV)][element(dlogits_TV)](args, begin, end); });
}

void CpuBackend::argmax(ConstView logits_TV, View index_T) {
  parallel_ranges(threads_, logits_TV.size(0), kRowGrain, [&](Index begin, Index end) {
    kernels_.loss.argmax[element(logits_TV)](logits_TV.data(), logits_TV.size(1), index_T.as<std::int32_t>(), begin, end);
  });
}

}  // namespace optimus::cpu
