// Routing: probabilities, choices, their weights and gradients, and statistics over groups of rows.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "optimus/backend/cpu/backend_impl.hpp"
#include "optimus/backend/cpu/parallel.hpp"

namespace optimus::cpu {
namespace {

constexpr Index kRowGrain = 64;
/// Rows added up together by column_sums: fixed, so sums do not depend on the number of threads.
constexpr Index kSumBlock = 256;

/// sums_E = column sums of rows [begin, end).
void sum_rows(const float* p_TE, Index begin, Index end, Index num_experts, double* sums_E) {
  std::fill_n(sums_E, num_experts, 0.0);
  for (Index t = begin; t < end; ++t)
    for (Index e = 0; e < num_experts; ++e) sums_E[e] += static_cast<double>(p_TE[t * num_experts + e]);
}

}  // namespace

void CpuBackend::router_softmax(ConstView logits_TE, View p_TE, View lse_T) {
  RouterArgs args{};
  args.logits = logits_TE.as<float>();
  args.p_out = p_TE.as<float>();
  args.lse_out = lse_T.as<float>();
  args.experts = logits_TE.size(1);
  parallel_ranges(threads_, logits_TE.size(0), kRowGrain, [&](Index begin, Index end) { kernels_.moe.softmax(args, begin, end); });
}

void CpuBackend::router_top_k(ConstView p_TE, View index_TK) {
  const Index E = p_TE.size(1);
  auto* rows = reinterpret_cast<float*>(shared_scratch(threads_ * round_up(E, 16) * 4));
  parallel_ranges(threads_, p_TE.size(0), kRowGrain, [&](Index begin, Index end) {
    RouterArgs args{};
    args.p = p_TE.as<float>();
    args.index_out = index_TK.as<std::int32_t>();
    args.experts = E;
    args.choices = index_TK.size(1);
    args.row_scratch = rows + omp_get_thread_num() * round_up(E, 16);
    kernels_.moe.top_k(args, begin, end);
  });
}

void CpuBackend::router_uniform(Index first_row, Index num_experts, View index_TK) {
  const Index K = index_TK.size(1);
  auto* index = index_TK.as<std::int32_t>();
  for (Index t = 0; t < index_TK.size(0); ++t)
    for (Index k = 0; k < K; ++k) index[t * K + k] = static_cast<std::int32_t>((first_row + t + k) % num_experts);
}

void CpuBackend::router_weights(ConstView p_TE, ConstView index_TK, bool normalise, View weight_TK) {
  const Index E = p_TE.size(1), K = index_TK.size(1);
  const auto* p = p_TE.as<float>();
  const auto* index = index_TK.as<std::int32_t>();
  auto* weight = weight_TK.as<float>();
  parallel_ranges(threads_, p_TE.size(0), 4 * kRowGrain, [&](Index begin, Index end) {
    for (Index t = begin; t < end; ++t) {
      float total = 0;
      for (Index k = 0; k < K; ++k) total += weight[t * K + k] = p[t * E + index[t * K + k]];
      for (Index k = 0; normalise && k < K; ++k) weight[t * K + k] /= total;
    }
  });
}

void CpuBackend::router_backward(const RouterGradient& g, View dlogits_TE) {
  RouterArgs args{};
  args.p = g.p_TE.as<float>();
  args.lse = g.lse_T.as<float>();
  args.index = g.index_TK.as<std::int32_t>();
  args.weight = g.weight_TK.as<float>();
  args.dweight = g.dweight_TK.as<float>();
  args.experts = g.p_TE.size(1);
  args.choices = g.index_TK.size(1);
  args.rows_per_group = 1;
  if (g.dp_GE.exists()) {
    args.dp = g.dp_GE.as<float>();
    args.rows_per_group = std::max<Index>(1, g.p_TE.size(0) / std::max<Index>(1, g.dp_GE.size(0)));
  }
  args.dlogits = dlogits_TE.as<float>();
  args.z_scale = static_cast<float>(g.z_scale);
  args.normalise = g.normalise;
  parallel_ranges(threads_, g.p_TE.size(0), kRowGrain, [&](Index begin, Index end) { kernels_.moe.router_backward(args, begin, end); });
}

void CpuBackend::expert_counts(ConstView index_TK, View counts_GE) {
  const Index groups = counts_GE.size(0), E = counts_GE.size(1), choices_per_group = groups == 0 ? 0 : index_TK.count() / groups;
  const auto* index = index_TK.as<std::int32_t>();
  auto* counts = counts_GE.as<std::int64_t>();
  parallel_ranges(threads_, groups, 1, [&](Index begin, Index end) {
    for (Index g = begin; g < end; ++g) {
      std::fill_n(counts + g * E, E, 0);
      for (Index i = g * choices_per_group; i < (g + 1) * choices_per_group; ++i) ++counts[g * E + index[i]];
    }
  });
}

void CpuBackend::column_sums(ConstView p_TE, View sums_GE) {
  const Index groups = sums_GE.size(0), E = sums_GE.size(1), rows = groups == 0 ? 0 : p_TE.size(0) / groups, num_blocks = ceil_div(rows, kSumBlock);
  auto* partial_GBE = reinterpret_cast<double*>(shared_scratch(groups * num_blocks * E * 8));
  const auto* p = p_TE.as<float>();
  parallel_ranges(threads_, groups * num_blocks, 1, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      const Index first = i / num_blocks * rows, block = i % num_blocks;
      sum_rows(p, first + block * kSumBlock, first + std::min(rows, (block + 1) * kSumBlock), E, partial_GBE + i * E);
    }
  });
  auto* sums = sums_GE.as<double>();
  std::fill_n(sums, groups * E, 0.0);
  for (Index i = 0; i < groups * num_blocks; ++i)
    for (Index e = 0; e < E; ++e) sums[i / num_blocks * E + e] += partial_GBE[i * E + e];
}

}  // namespace optimus::cpu
