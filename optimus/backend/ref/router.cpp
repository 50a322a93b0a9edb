#include <algorithm>
#include <cmath>

#include "optimus/backend/ref/kernels.hpp"
#include "optimus/backend/ref/storage.hpp"

namespace optimus::ref {

void RefBackend::router_logits_forward(ConstView x_TD, ConstView w_ED, View logits_TE) { linear_forward(x_TD, w_ED, logits_TE); }

void RefBackend::router_logits_backward(ConstView dlogits_TE, ConstView x_TD, ConstView w_ED, View dx_TD, View dw_ED) {
  linear_backward_input(dlogits_TE, w_ED, dx_TD, Write::kAccumulate);
  linear_backward_weight(dlogits_TE, x_TD, dw_ED);
}

void RefBackend::router_softmax(ConstView logits_TE, View p_TE, View lse_T) {
  const Matrix logits(logits_TE);
  const Index T = logits_TE.size(0), E = logits_TE.size(1);
  Matrix p(T, E), lse(T, 1);
  for (Index t = 0; t < T; ++t) {
    double max = logits(t, 0), sum = 0;
    for (Index e = 0; e < E; ++e) max = std::max(max, logits(t, e));
    for (Index e = 0; e < E; ++e) sum += std::exp(logits(t, e) - max);
    lse(t, 0) = max + std::log(sum);
    for (Index e = 0; e < E; ++e) p(t, e) = std::exp(logits(t, e) - max) / sum;
  }
  store(p_TE, p.values);
  store(lse_T, lse.values);
}

void RefBackend::router_top_k(ConstView p_TE, View index_TK) {
  const Matrix p(p_TE);
  const Index E = p_TE.size(1), K = index_TK.size(1);
  auto* index = index_TK.as<std::int32_t>();
  for (Index t = 0; t < p_TE.size(0); ++t) {
    std::vector<bool> is_chosen(static_cast<std::size_t>(E));
    for (Index k = 0; k < K; ++k) {
      Index best = -1;
      for (Index e = 0; e < E; ++e) {
        if (!is_chosen[static_cast<std::size_t>(e)] && (best < 0 || p(t, e) > p(t, best))) best = e;
      }
      is_chosen[static_cast<std::size_t>(best)] = true;
      index[t * K + k] = static_cast<std::int32_t>(best);
    }
  }
}

void RefBackend::router_uniform(Index first_row, Index num_experts, View index_TK) {
  auto* index = index_TK.as<std::int32_t>();
  const Index K = index_TK.size(1);
  for (Index t = 0; t < index_TK.size(0); ++t) {
    for (Index k = 0; k < K; ++k) index[t * K + k] = static_cast<std::int32_t>((first_row + t + k) % num_experts);
  }
}

void RefBackend::router_weights(ConstView p_TE, ConstView index_TK, bool normalise, View weight_TK) {
  const Matrix p(p_TE);
  const auto* index = index_TK.as<std::int32_t>();
  const Index T = index_TK.size(0), K = index_TK.size(1);
  Matrix weight(T, K);
  for (Index t = 0; t < T; ++t) {
    double sum = 0;
    for (Index k = 0; k < K; ++k) sum += p(t, index[t * K + k]);
    for (Index k = 0; k < K; ++k) weight(t, k) = p(t, index[t * K + k]) / (normalise ? sum : 1);
  }
  store(weight_TK, weight.values);
}

void RefBackend::router_backward(const RouterGradient& g, View dlogits_TE) {
  const Matrix p(g.p_TE), weight(g.weight_TK), dweight(g.dweight_TK);
  const std::vector<double> lse = load(g.lse_T);
  const auto* index = g.index_TK.as<std::int32_t>();
  const Index T = g.p_TE.size(0), E = g.p_TE.size(1), K = g.index_TK.size(1);
  Matrix dp(T, E), dlogits(T, E);  // dp: the header's g[t,e]
  if (g.dp_GE.exists()) {
    const Matrix of_group(g.dp_GE);
    const Index rows_per_group = T / g.dp_GE.size(0);
    for (Index t = 0; t < T; ++t) {
      for (Index e = 0; e < E; ++e) dp(t, e) = of_group(t / rows_per_group, e);
    }
  }
  for (Index t = 0; t < T; ++t) {
    double sum = 1, mean = 0;  // weight[k] = p[k] / sum: dp[k] = (dweight[k] - sum_j dweight[j] * weight[j]) / sum
    if (g.normalise) {
      sum = 0;
      for (Index k = 0; k < K; ++k) sum += p(t, index[t * K + k]);
      for (Index k = 0; k < K; ++k) mean += dweight(t, k) * weight(t, k);
    }
    for (Index k = 0; k < K; ++k) dp(t, index[t * K + k]) += (dweight(t, k) - mean) / sum;

    double p_dp = 0;
    for (Index e = 0; e < E; ++e) p_dp += p(t, e) * dp(t, e);
    for (Index e = 0; e < E; ++e) dlogits(t, e) = p(t, e) * (dp(t, e) - p_dp) + 2 * g.z_scale * lse[static_cast<std::size_t>(t)] * p(t, e);
  }
  store(dlogits_TE, dlogits.values);
}

void RefBackend::expert_counts(ConstView index_TK, View counts_GE) {
  const auto* index = index_TK.as<std::int32_t>();
  auto* counts = counts_GE.as<std::int64_t>();
  const Index G = counts_GE.size(0), E = counts_GE.size(1), choices_per_group = index_TK.count() / G;
  std::fill(counts, counts + G * E, 0);
  for (Index i = 0; i < index_TK.count(); ++i) ++counts[i / choices_per_group * E + index[i]];
}

void RefBackend::column_sums(ConstView p_TE, View sums_GE) {
  const Matrix p(p_TE);
  const Index G = sums_GE.size(0), E = sums_GE.size(1), rows_per_group = p_TE.size(0) / G;
  Matrix sums(G, E);
  for (Index t = 0; t < p_TE.size(0); ++t) {
    for (Index e = 0; e < E; ++e) sums(t / rows_per_group, e) += p(t, e);
  }
  store(sums_GE, sums.values);
}

}  // namespace optimus::ref
