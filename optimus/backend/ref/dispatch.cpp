#include <algorithm>
#include <set>

#include "optimus/backend/ref/kernels.hpp"
#include "optimus/backend/ref/storage.hpp"

namespace optimus::ref {
namespace {

/// Calls fn(row, expert-major place, choice) for every slot in row-major order.
template <class Fn>
void for_each_slot(const DispatchPlan& plan, Fn fn) {
  const auto row_offsets = plan.row_offsets_T.span<std::int64_t>();
  const auto* output_indices = plan.output_indices_R.as<std::int32_t>();
  const auto* selected_k = plan.selected_k_R.as<std::int32_t>();
  for (std::size_t t = 0; t + 1 < row_offsets.size(); ++t) {
    for (Index o = row_offsets[t]; o < row_offsets[t + 1]; ++o) fn(static_cast<Index>(t), Index{output_indices[o]}, Index{selected_k[o]});
  }
}

}  // namespace

void RefBackend::expert_ranks(ConstView index_TK, Index experts_per_rank, View rank_TK) {
  const Index K = index_TK.size(1);
  for (Index t = 0; t < index_TK.size(0); ++t) {
    std::set<std::int32_t> ranks;
    for (Index k = 0; k < K; ++k) ranks.insert(static_cast<std::int32_t>(index_TK[t].as<std::int32_t>()[k] / experts_per_rank));
    auto* out = std::copy(ranks.begin(), ranks.end(), rank_TK[t].as<std::int32_t>());
    std::fill(out, rank_TK[t].as<std::int32_t>() + K, -1);
  }
}

void RefBackend::build_dispatch(ConstView index_TK, Index expert_begin, const DispatchPlan& plan) {
  const auto* index = index_TK.as<std::int32_t>();
  const Index T = index_TK.size(0), K = index_TK.size(1), num_experts = plan.segments_e.size(0) - 1;
  auto* segments = plan.segments_e.as<std::int64_t>();
  auto* row_offsets = plan.row_offsets_T.as<std::int64_t>();
  std::vector<Index> place_of_choice(static_cast<std::size_t>(T * K), -1);  // -1: not a local expert

  Index num_slots = 0;
  for (Index j = 0; j < num_experts; ++j) {
    segments[j] = num_slots;
    for (Index choice = 0; choice < T * K; ++choice) {
      if (index[choice] != expert_begin + j) continue;
      plan.input_indices_R.as<std::int32_t>()[num_slots] = static_cast<std::int32_t>(choice / K);
      place_of_choice[static_cast<std::size_t>(choice)] = num_slots++;
    }
  }
  segments[num_experts] = num_slots;

  Index o = 0;
  for (Index t = 0; t < T; ++t) {
    row_offsets[t] = o;
    for (Index k = 0; k < K; ++k) {
      const Index place = place_of_choice[static_cast<std::size_t>(t * K + k)];
      if (place < 0) continue;
      plan.output_indices_R.as<std::int32_t>()[o] = static_cast<std::int32_t>(place);
      plan.selected_k_R.as<std::int32_t>()[o++] = static_cast<std::int32_t>(k);
    }
  }
  row_offsets[T] = o;
}

void RefBackend::gather_rows(ConstView x_TD, const DispatchPlan& plan, View x_RD) {
  const auto* input_indices = plan.input_indices_R.as<std::int32_t>();
  for (Index i = 0; i < last(plan.segments_e); ++i) copy(x_TD[input_indices[i]], x_RD[i]);
}

void RefBackend::scatter_rows(ConstView dx_RD, const DispatchPlan& plan, View dx_TD, Write write) {
  const Matrix slots(dx_RD.rows(0, last(plan.segments_e)));
  Matrix dx(dx_TD.size(0), dx_TD.size(1));
  for_each_slot(plan, [&](Index t, Index place, Index) {
    for (Index d = 0; d < dx.width; ++d) dx(t, d) += slots(place, d);
  });
  store(dx_TD, dx.values, write);
}

void RefBackend::combine_forward(ConstView y_RD, ConstView weight_TK, const DispatchPlan& plan, View y_TD) {
  const Matrix slots(y_RD.rows(0, last(plan.segments_e))), weight(weight_TK);
  Matrix y(y_TD.size(0), y_TD.size(1));
  for_each_slot(plan, [&](Index t, Index place, Index k) {
    for (Index d = 0; d < y.width; ++d) y(t, d) += weight(t, k) * slots(place, d);
  });
  store(y_TD, y.values);
}

void RefBackend::slot_weights(ConstView weight_TK, const DispatchPlan& plan, View weight_R) {
  const Matrix weight(weight_TK);
  Matrix of_slot(last(plan.segments_e), 1);
  for_each_slot(plan, [&](Index t, Index place, Index k) { of_slot(place, 0) = weight(t, k); });
  store(weight_R.rows(0, last(plan.segments_e)), of_slot.values);
}

void RefBackend::slot_weights_backward(ConstView dweight_R, const DispatchPlan& plan, View dweight_TK) {
  const std::vector<double> of_slot = load(dweight_R.rows(0, last(plan.segments_e)));
  Matrix dweight(dweight_TK.size(0), dweight_TK.size(1));
  for_each_slot(plan, [&](Index t, Index place, Index k) { dweight(t, k) = of_slot[static_cast<std::size_t>(place)]; });
  store(dweight_TK, dweight.values);
}

}  // namespace optimus::ref
