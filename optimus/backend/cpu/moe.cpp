// Dispatch to the experts of this rank and back, and the expert activation.

#include <algorithm>
#include <cstring>
#include <utility>

#include "optimus/backend/cpu/backend_impl.hpp"
#include "optimus/backend/cpu/parallel.hpp"

namespace optimus::cpu {
namespace {

constexpr Index kRowGrain = 16, kElementGrain = 16384, kMinRowsPerBlock = 128;

Index num_slots(ConstView segments_e) { return segments_e.as<std::int64_t>()[segments_e.size(0) - 1]; }

/// What build_dispatch's blocks share. Counts become write positions: of (expert, block) in expert-major order, of a block in row-major order.
struct DispatchBlocks {
  Index num_rows, choices, expert_begin, num_experts, num_blocks;
  const std::int32_t* index_TK;
  std::int64_t *next_Be, *next_row_major_B;

  [[nodiscard]] Index row(Index block) const { return block * num_rows / num_blocks; }
  [[nodiscard]] bool is_local(Index expert) const { return expert >= 0 && expert < num_experts; }
  void count(Index block) const {
    std::int64_t* counts_e = next_Be + block * num_experts;
    std::fill_n(counts_e, num_experts, 0);
    Index total = 0;
    for (Index i = row(block) * choices; i < row(block + 1) * choices; ++i) {
      const Index expert = index_TK[i] - expert_begin;
      if (is_local(expert)) ++counts_e[expert], ++total;
    }
    next_row_major_B[block] = total;
  }
  void sum_up(std::int64_t* segments_e) const {
    Index slot = 0;
    for (Index e = 0; e < num_experts; ++e) {
      segments_e[e] = slot;
      for (Index block = 0; block < num_blocks; ++block) slot += std::exchange(next_Be[block * num_experts + e], slot);
    }
    segments_e[num_experts] = slot;
    slot = 0;
    for (Index block = 0; block < num_blocks; ++block) slot += std::exchange(next_row_major_B[block], slot);
  }
  void fill(Index block, std::int32_t* input_indices, std::int64_t* row_offsets, std::int32_t* output_indices, std::int32_t* selected_k) const {
    std::int64_t *next_e = next_Be + block * num_experts, o = next_row_major_B[block];
    for (Index t = row(block); t < row(block + 1); ++t) {
      row_offsets[t] = o;
      for (Index k = 0; k < choices; ++k) {
        const Index expert = index_TK[t * choices + k] - expert_begin;
        if (!is_local(expert)) continue;
        const std::int64_t i = next_e[expert]++;
        input_indices[i] = static_cast<std::int32_t>(t);
        output_indices[o] = static_cast<std::int32_t>(i);
        selected_k[o++] = static_cast<std::int32_t>(k);
      }
    }
  }
};

CombineArgs combine_args(ConstView rows_RD, const DispatchPlan& plan, View out_TD) {
  CombineArgs args{};
  args.rows = rows_RD.data();
  args.row_offsets = plan.row_offsets_T.as<std::int64_t>();
  args.output_indices = plan.output_indices_R.as<std::int32_t>();
  args.selected_k = plan.selected_k_R.as<std::int32_t>();
  args.out = out_TD.data();
  args.width = out_TD.size(1);
  return args;
}

}  // namespace

void CpuBackend::expert_ranks(ConstView index_TK, Index experts_per_rank, View rank_TK) {
  const Index K = index_TK.size(1);
  const auto* index = index_TK.as<std::int32_t>();
  auto* out = rank_TK.as<std::int32_t>();
  parallel_ranges(threads_, index_TK.size(0), 256, [&](Index begin, Index end) {
    for (Index t = begin; t < end; ++t) {
      std::int32_t* ranks = out + t * K;
      for (Index k = 0; k < K; ++k) ranks[k] = static_cast<std::int32_t>(index[t * K + k] / experts_per_rank);
      std::sort(ranks, ranks + K);
      std::fill(std::unique(ranks, ranks + K), ranks + K, -1);
    }
  });
}

void CpuBackend::build_dispatch(ConstView index_TK, Index expert_begin, const DispatchPlan& plan) {
  const Index T = index_TK.size(0), e = plan.segments_e.size(0) - 1, num_blocks = std::clamp<Index>(T / kMinRowsPerBlock, 1, threads_);
  auto* memory = reinterpret_cast<std::int64_t*>(shared_scratch(num_blocks * (e + 1) * 8));
  const DispatchBlocks blocks{T, index_TK.size(1), expert_begin, e, num_blocks, index_TK.as<std::int32_t>(), memory, memory + num_blocks * e};
  parallel_items(threads_, num_blocks, [&](Index block, int) { blocks.count(block); });
  auto *segments_e = plan.segments_e.as<std::int64_t>(), *row_offsets = plan.row_offsets_T.as<std::int64_t>();
  blocks.sum_up(segments_e);
  parallel_items(threads_, num_blocks, [&](Index block, int) {
    blocks.fill(block, plan.input_indices_R.as<std::int32_t>(), row_offsets, plan.output_indices_R.as<std::int32_t>(), plan.selected_k_R.as<std::int32_t>());
  });
  row_offsets[T] = segments_e[e];
}

void CpuBackend::gather_rows(ConstView x_TD, const DispatchPlan& plan, View x_RD) {
  const auto row_bytes = static_cast<std::size_t>(x_TD.size(1) * dtype_bytes(x_TD.dtype()));
  const auto* input_indices = plan.input_indices_R.as<std::int32_t>();
  parallel_ranges(threads_, num_slots(plan.segments_e), kRowGrain, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i)
      std::memcpy(x_RD.data() + static_cast<std::size_t>(i) * row_bytes, x_TD.data() + static_cast<std::size_t>(input_indices[i]) * row_bytes, row_bytes);
  });
}

void CpuBackend::scatter_rows(ConstView dx_RD, const DispatchPlan& plan, View dx_TD, Write write) {
  CombineArgs args = combine_args(dx_RD, plan, dx_TD);
  args.accumulate = write == Write::kAccumulate;
  parallel_ranges(threads_, dx_TD.size(0), kRowGrain, [&](Index begin, Index end) { kernels_.moe.combine[element(dx_TD)](args, begin, end); });
}

void CpuBackend::combine_forward(ConstView y_RD, ConstView weight_TK, const DispatchPlan& plan, View y_TD) {
  CombineArgs args = combine_args(y_RD, plan, y_TD);
  args.weight = weight_TK.as<float>();
  args.choices = weight_TK.size(1);
  parallel_ranges(threads_, y_TD.size(0), kRowGrain, [&](Index begin, Index end) { kernels_.moe.combine[element(y_TD)](args, begin, end); });
}

void CpuBackend::slot_weights(ConstView weight_TK, const DispatchPlan& plan, View weight_R) {
  const Index K = weight_TK.size(1);
  const auto* row_offsets = plan.row_offsets_T.as<std::int64_t>();
  const auto *output_indices = plan.output_indices_R.as<std::int32_t>(), *selected_k = plan.selected_k_R.as<std::int32_t>();
  const auto* weight = weight_TK.as<float>();
  auto* out = weight_R.as<float>();
  parallel_ranges(threads_, weight_TK.size(0), 256, [&](Index begin, Index end) {
    for (Index t = begin; t < end; ++t)
      for (Index o = row_offsets[t]; o < row_offsets[t + 1]; ++o) out[output_indices[o]] = weight[t * K + selected_k[o]];
  });
}

void CpuBackend::slot_weights_backward(ConstView dweight_R, const DispatchPlan& plan, View dweight_TK) {
  const Index K = dweight_TK.size(1);
  const auto* row_offsets = plan.row_offsets_T.as<std::int64_t>();
  const auto *output_indices = plan.output_indices_R.as<std::int32_t>(), *selected_k = plan.selected_k_R.as<std::int32_t>();
  const auto* dweight = dweight_R.as<float>();
  auto* out = dweight_TK.as<float>();
  parallel_ranges(threads_, dweight_TK.size(0), 256, [&](Index begin, Index end) {
    for (Index t = begin; t < end; ++t) {
      std::fill_n(out + t * K, K, 0.0F);
      for (Index o = row_offsets[t]; o < row_offsets[t + 1]; ++o) out[t * K + selected_k[o]] = dweight[output_indices[o]];
    }
  });
}

void CpuBackend::swiglu_forward(ConstView gate_RF, ConstView up_RF, ConstView num_rows, View act_RF) {
  SwigluArgs args{};
  args.gate = gate_RF.data();
  args.up = up_RF.data();
  args.act = act_RF.data();
  const Index count = num_rows.exists() ? num_rows.as<std::int64_t>()[0] * gate_RF.shape().count_from(1) : gate_RF.count();
  parallel_ranges(threads_, count, kElementGrain, [&](Index begin, Index end) { kernels_.moe.swiglu_forward[element(gate_RF)](args, begin, end); });
}

void CpuBackend::swiglu_backward(ConstView dact_RF, ConstView gate_RF, ConstView up_RF, View dgate_RF, View dup_RF) {
  SwigluArgs args{};
  args.dact = dact_RF.data();
  args.gate = gate_RF.data();
  args.up = up_RF.data();
  args.dgate = dgate_RF.data();
  args.dup = dup_RF.data();
  parallel_ranges(threads_, gate_RF.count(), kElementGrain, [&](Index begin, Index end) { kernels_.moe.swiglu_backward[element(gate_RF)](args, begin, end); });
}

void CpuBackend::expert_swiglu_backward(ConstView dact_RF, ConstView gate_RF, ConstView up_RF, ConstView weight_R, ConstView segments_e,
                                        const ExpertActivationGradient& out) {
  SwigluArgs args{};
  args.dact = dact_RF.data();
  args.gate = gate_RF.data();
  args.up = up_RF.data();
  args.weight = weight_R.as<float>();
  args.dgate = out.dgate_RF.data();
  args.dup = out.dup_RF.data();
  args.weighted_act = out.weighted_act_RF.data();
  args.dweight = out.dweight_R.as<float>();
  args.width = gate_RF.size(1);
  parallel_ranges(threads_, num_slots(segments_e), kRowGrain,
                  [&](Index begin, Index end) { kernels_.moe.expert_swiglu_backward[element(gate_RF)](args, begin, end); });
}

}  // namespace optimus::cpu
