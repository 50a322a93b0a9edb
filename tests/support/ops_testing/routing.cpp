#include <algorithm>
#include <numeric>

#include "optimus/backend/ref/ref_backend.hpp"
#include "optimus/base/random.hpp"
#include "tests/support/ops_testing.hpp"

namespace optimus::test {
namespace {

/// Distinct choices, by a partial shuffle of the experts for every row.
std::vector<double> random_choices(Index num_rows, Index top_k, Index busy_experts) {
  const RandomStream stream(1, "test", "routing");
  std::vector<double> index, experts(static_cast<std::size_t>(busy_experts));
  for (Index t = 0; t < num_rows; ++t) {
    std::iota(experts.begin(), experts.end(), 0.0);
    for (Index k = 0; k < top_k; ++k) {
      const Index other = k + static_cast<Index>(stream.below(t * top_k + k, static_cast<std::uint64_t>(busy_experts - k)));
      std::swap(experts[static_cast<std::size_t>(k)], experts[static_cast<std::size_t>(other)]);
      index.push_back(experts[static_cast<std::size_t>(k)]);
    }
  }
  return index;
}

}  // namespace

Routed random_routing(Index num_rows, Index num_experts, Index top_k, Index busy_experts, Index expert_begin, Index expert_end) {
  Routed routed{.num_rows = num_rows, .num_experts = num_experts, .top_k = top_k, .expert_begin = expert_begin, .expert_end = expert_end};
  routed.index = random_choices(num_rows, top_k, busy_experts);
  const Tensor index(DType::kI32, {num_rows, top_k}, routed.index), segments(DType::kI64, {expert_end - expert_begin + 1}),
      row_offsets(DType::kI64, {num_rows + 1});
  const Tensor input(DType::kI32, {num_rows * top_k}), output(DType::kI32, {num_rows * top_k}), selected(DType::kI32, {num_rows * top_k});
  make_ref_backend()->build_dispatch(index, expert_begin, {segments, input, row_offsets, output, selected});
  routed.segments = segments.values();
  routed.input_indices = input.values();
  routed.row_offsets = row_offsets.values();
  routed.output_indices = output.values();
  routed.selected_k = selected.values();
  return routed;
}

void add_plan(OpCase& op, const Routed& routed) {
  op.in("segments", Kind::kI64, {routed.expert_end - routed.expert_begin + 1}, routed.segments)
      .in("input_indices", Kind::kI32, {routed.capacity()}, routed.input_indices)
      .in("row_offsets", Kind::kI64, {routed.num_rows + 1}, routed.row_offsets)
      .in("output_indices", Kind::kI32, {routed.capacity()}, routed.output_indices)
      .in("selected_k", Kind::kI32, {routed.capacity()}, routed.selected_k);
}

DispatchPlan plan_of(const OpCase::Arguments& arguments) {
  return {arguments["segments"], arguments["input_indices"], arguments["row_offsets"], arguments["output_indices"], arguments["selected_k"]};
}

}  // namespace optimus::test
