#include <algorithm>
#include <cmath>

#include "optimus/backend/ref/kernels.hpp"
#include "optimus/backend/ref/storage.hpp"

namespace optimus::ref {
namespace {

// A negative label (only the ignored one is) has no loss.
bool has_loss(std::int32_t label) { return label >= 0; }

}  // namespace

void RefBackend::cross_entropy_statistics(ConstView logits_TV, ConstView labels_T, Index vocab_begin, const SoftmaxStatistics& out) {
  const Matrix logits(logits_TV);
  const auto* labels = labels_T.as<std::int32_t>();
  const Index T = logits_TV.size(0), V = logits_TV.size(1);
  Matrix max(T, 1), sum(T, 1), target(T, 1);
  for (Index t = 0; t < T; ++t) {
    max(t, 0) = logits(t, 0);
    for (Index v = 0; v < V; ++v) max(t, 0) = std::max(max(t, 0), logits(t, v));
    for (Index v = 0; v < V; ++v) sum(t, 0) += std::exp(logits(t, v) - max(t, 0));
    const Index column = labels[t] - vocab_begin;
    if (has_loss(labels[t]) && column >= 0 && column < V) target(t, 0) = logits(t, column);
  }
  store(out.max_T, max.values);
  store(out.sum_T, sum.values);
  store(out.target_T, target.values);
}

void RefBackend::combine_softmax_statistics(ConstView parts_M3T, const SoftmaxStatistics& out) {
  const std::vector<double> parts = load(parts_M3T);
  const Index members = parts_M3T.size(0), T = parts_M3T.size(2);
  const auto of = [&](Index member, Index which, Index t) { return parts[static_cast<std::size_t>((member * 3 + which) * T + t)]; };
  Matrix max(T, 1), sum(T, 1), target(T, 1);
  for (Index t = 0; t < T; ++t) {
    max(t, 0) = of(0, 0, t);
    for (Index m = 1; m < members; ++m) max(t, 0) = std::max(max(t, 0), of(m, 0, t));
    for (Index m = 0; m < members; ++m) {
      sum(t, 0) += of(m, 1, t) * std::exp(of(m, 0, t) - max(t, 0));
      target(t, 0) += of(m, 2, t);
    }
  }
  store(out.max_T, max.values);
  store(out.sum_T, sum.values);
  store(out.target_T, target.values);
}

void RefBackend::cross_entropy_loss(const SoftmaxStatistics& statistics, ConstView labels_T, View loss_T, View lse_T) {
  const std::vector<double> max = load(statistics.max_T), sum = load(statistics.sum_T), target = load(statistics.target_T);
  const auto labels = labels_T.span<std::int32_t>();
  std::vector<double> loss(max.size()), lse(max.size());
  for (std::size_t t = 0; t < max.size(); ++t) {
    lse[t] = max[t] + std::log(sum[t]);
    loss[t] = has_loss(labels[t]) ? lse[t] - target[t] : 0;
  }
  store(loss_T, loss);
  store(lse_T, lse);
}

void RefBackend::cross_entropy_gradient(ConstView logits_TV, ConstView labels_T, Index vocab_begin, ConstView lse_T, double scale, View dlogits_TV) {
  const Matrix logits(logits_TV);
  const std::vector<double> lse = load(lse_T);
  const auto* labels = labels_T.as<std::int32_t>();
  const Index T = logits_TV.size(0), V = logits_TV.size(1);
  Matrix dlogits(T, V);
  for (Index t = 0; t < T; ++t) {
    if (!has_loss(labels[t])) continue;
    for (Index v = 0; v < V; ++v) {
      const double is_target = v + vocab_begin == labels[t] ? 1 : 0;
      dlogits(t, v) = scale * (std::exp(logits(t, v) - lse[static_cast<std::size_t>(t)]) - is_target);
    }
  }
  store(dlogits_TV, dlogits.values);
}

void RefBackend::argmax(ConstView logits_TV, View index_T) {
  const Matrix logits(logits_TV);
  for (Index t = 0; t < logits_TV.size(0); ++t) {
    Index best = 0;
    for (Index v = 1; v < logits_TV.size(1); ++v) {
      if (logits(t, v) > logits(t, best)) best = v;
    }
    index_T.as<std::int32_t>()[t] = static_cast<std::int32_t>(best);
  }
}

}  // namespace optimus::ref
