#include "optimus/model/moe/experts.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace optimus {

ExpertsPart allocate_part(const MoeContext& c, const IndexRange& rows, Index experts) {
  const Index at_hand = c.dispatcher.row_capacity(c, rows.count);
  const Index slots = checked_mul(at_hand, std::min(c.shape.top_k, local_experts(c).count));
  return {.route = c.dispatcher.allocate(c, rows),
          .plan = {.segments_e = c.kept->alloc(DType::kI64, {experts + 1}),
                   .input_indices_R = c.kept->alloc(DType::kI32, {slots}),
                   .row_offsets_T = c.kept->alloc(DType::kI64, {at_hand + 1}),
                   .output_indices_R = c.kept->alloc(DType::kI32, {slots}),
                   .selected_k_R = c.kept->alloc(DType::kI32, {slots})},
          .weight_R = c.kept->alloc(c.wide, {slots}),
          .x_RD = c.kept->alloc(c.dtype, {slots, c.shape.hidden_size}),
          .gate_RF = c.kept->alloc(c.dtype, {slots, c.shape.intermediate_size}),
          .up_RF = c.kept->alloc(c.dtype, {slots, c.shape.intermediate_size})};
}

std::unique_ptr<Experts> make_experts(std::string_view implementation) {
  if (implementation == "fast") return make_fast_sparse_moe();
  if (implementation == "reference") return make_reference_sparse_moe();
  throw ConfigError(fmt::format("[moe] there is no implementation \"{}\"; set moe.implementation to \"fast\" or \"reference\"", implementation));
}

}  // namespace optimus
