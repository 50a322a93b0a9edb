// SparseMoE, the plain block: a loop over the experts, each with its own gather, three products and scatter-add.
//
// No grouped product and no expert-major combination: what FastSparseMoE is compared with, for its results and for its speed. One rank only.
// Legend:   T rows, D hidden, F expert intermediate, n rows of the expert at hand, R = T * K slots.

#include "optimus/model/moe/experts.hpp"
#include "optimus/ops/linear.hpp"
#include "optimus/ops/misc.hpp"
#include "optimus/ops/moe.hpp"

namespace optimus {
namespace {

/// The rows of one expert, and where its n saved rows lie.
struct OneExpert {
  DispatchPlan plan;
  View x_nD, gate_nF, up_nF, weight_n;
};

/// The slot lists of `plan` cut to n entries.
DispatchPlan first_slots(const DispatchPlan& plan, Index n) {
  return {.segments_e = plan.segments_e,
          .input_indices_R = plan.input_indices_R.rows(0, n),
          .row_offsets_T = plan.row_offsets_T,
          .output_indices_R = plan.output_indices_R.rows(0, n),
          .selected_k_R = plan.selected_k_R.rows(0, n)};
}

/// Finds the rows that chose `expert`; its saved rows follow the `begin` rows of the experts before it.
OneExpert find_expert(const MoeContext& c, const Routing& routing, const ExpertsSaved& s, Index expert, Index begin) {
  const DispatchPlan& all = s.dispatch.plan;
  ops::build_dispatch(c.backend, routing.index_TK, expert, all);
  // A plan for memory and arithmetic takes an even share of the slots that are left, so that each is counted once.
  const Index n = c.is_planning ? ceil_div(s.x_RD.size(0) - begin, c.shape.num_experts - expert) : all.segments_e.span<std::int64_t>()[1];
  OneExpert one{.plan = first_slots(all, n),
                .x_nD = s.x_RD.rows(begin, begin + n),
                .gate_nF = s.gate_RF.rows(begin, begin + n),
                .up_nF = s.up_RF.rows(begin, begin + n),
                .weight_n = s.dispatch.weight_R.rows(begin, begin + n)};
  ops::slot_weights(c.backend, routing.weight_TK, one.plan, one.weight_n);
  return one;
}

/// A plan in which each of T rows is its own only slot: combine_forward over it multiplies rows by their weights.
DispatchPlan rows_as_slots(const MoeContext& c, Scratch& scratch, Index rows) {
  const View zero_T1 = scratch.alloc(DType::kI32, {rows, 1});
  const DispatchPlan plan{.segments_e = scratch.alloc(DType::kI64, {2}),
                          .input_indices_R = scratch.alloc(DType::kI32, {rows}),
                          .row_offsets_T = scratch.alloc(DType::kI64, {rows + 1}),
                          .output_indices_R = scratch.alloc(DType::kI32, {rows}),
                          .selected_k_R = scratch.alloc(DType::kI32, {rows})};
  ops::fill_zero(c.backend, zero_T1);
  ops::build_dispatch(c.backend, zero_T1, 0, plan);
  return plan;
}

/// y_TD[row of i] += weight[i] * y_nD[i].   Scratch: weighted_nD.
void weighted_scatter_add(const MoeContext& c, const DispatchPlan& identity, const OneExpert& one, ConstView y_nD, View weighted_nD, View y_TD) {
  const Index n = y_nD.size(0);
  DispatchPlan own = first_slots(identity, n);
  own.segments_e = one.plan.segments_e;
  own.row_offsets_T = identity.row_offsets_T.rows(0, n + 1);
  ops::combine_forward(c.backend, y_nD, one.weight_n.reshaped({n, 1}), own, weighted_nD);
  ops::scatter_rows(c.backend, weighted_nD, one.plan, y_TD, Write::kAccumulate);
}

class ReferenceSparseMoe : public Experts {
 public:
  [[nodiscard]] ExpertsSaved allocate(const MoeContext& c, Index rows) const override {
    const Index slots = checked_mul(rows, c.shape.top_k);
    return {.dispatch = {.plan = {.segments_e = c.kept->alloc(DType::kI64, {2}),
                                  .input_indices_R = c.kept->alloc(DType::kI32, {slots}),
                                  .row_offsets_T = c.kept->alloc(DType::kI64, {rows + 1}),
                                  .output_indices_R = c.kept->alloc(DType::kI32, {slots}),
                                  .selected_k_R = c.kept->alloc(DType::kI32, {slots})},
                         .weight_R = c.kept->alloc(c.wide, {slots})},
            .x_RD = c.kept->alloc(c.dtype, {slots, c.shape.hidden_size}),
            .gate_RF = c.kept->alloc(c.dtype, {slots, c.shape.intermediate_size}),
            .up_RF = c.kept->alloc(c.dtype, {slots, c.shape.intermediate_size})};
  }

  void forward(const MoeContext& c, const ExpertWeights& w, ConstView x_TD, const Routing& routing, const ExpertsSaved& s, View y_TD) const override {
    Scratch scratch(c.arena);
    const Index rows = x_TD.size(0);
    DispatchPlan identity;
    View act_TF, y_expert_TD, weighted_TD;
    if (y_TD.exists()) {
      identity = rows_as_slots(c, scratch, rows);
      act_TF = scratch.alloc(c.dtype, {rows, c.shape.intermediate_size});
      y_expert_TD = scratch.like(x_TD);
      weighted_TD = scratch.like(x_TD);
      ops::fill_zero(c.backend, y_TD);
    }
    for (Index expert = 0, begin = 0; expert < c.shape.num_experts; ++expert) {
      const OneExpert one = find_expert(c, routing, s, expert, begin);
      const Index n = one.x_nD.size(0);
      begin += n;
      ops::gather_rows(c.backend, x_TD, one.plan, one.x_nD);
      ops::linear_forward(c.backend, one.x_nD, w.w_gate_eFD[expert], one.gate_nF);
      ops::linear_forward(c.backend, one.x_nD, w.w_up_eFD[expert], one.up_nF);
      if (!y_TD.exists()) continue;
      const View act_nF = act_TF.rows(0, n), y_nD = y_expert_TD.rows(0, n);
      ops::swiglu_forward(c.backend, one.gate_nF, one.up_nF, {}, act_nF);
      ops::linear_forward(c.backend, act_nF, w.w_down_eDF[expert], y_nD);
      weighted_scatter_add(c, identity, one, y_nD, weighted_TD.rows(0, n), y_TD);
    }
  }

  void backward(const MoeContext& c, const ExpertWeights& w, ConstView /*x_TD*/, const Routing& routing, const ExpertsSaved& s,
                const ExpertsGradient& g) const override {
    Scratch scratch(c.arena);
    const Index rows = g.dy_TD.size(0);
    const View dy_expert_TD = scratch.like(g.dy_TD), dact_TF = scratch.alloc(c.dtype, {rows, c.shape.intermediate_size});
    const View dweight_T = scratch.alloc(c.wide, {rows}), dweight_expert_TK = scratch.like(g.dweight_TK);
    ops::fill_zero(c.backend, g.dx_TD);
    ops::fill_zero(c.backend, g.dweight_TK);
    for (Index expert = 0, begin = 0; expert < c.shape.num_experts; ++expert) {
      const OneExpert one = find_expert(c, routing, s, expert, begin);
      const Index n = one.x_nD.size(0);
      begin += n;
      const View dy_nD = dy_expert_TD.rows(0, n), dact_nF = dact_TF.rows(0, n), dweight_n = dweight_T.rows(0, n);
      const View dgate_nF = one.gate_nF, dup_nF = one.up_nF, weighted_act_nF = dact_nF, dx_nD = dy_nD;  // in place
      ops::gather_rows(c.backend, g.dy_TD, one.plan, dy_nD);
      ops::linear_backward_input(c.backend, dy_nD, w.w_down_eDF[expert], dact_nF, Write::kOverwrite);
      ops::expert_swiglu_backward(c.backend, dact_nF, one.gate_nF, one.up_nF, one.weight_n, one.plan.segments_e,
                                  {dgate_nF, dup_nF, weighted_act_nF, dweight_n});
      ops::linear_backward_weight(c.backend, dy_nD, weighted_act_nF, g.dw.w_down_eDF[expert]);
      ops::linear_backward_weight(c.backend, dgate_nF, one.x_nD, g.dw.w_gate_eFD[expert]);
      ops::linear_backward_weight(c.backend, dup_nF, one.x_nD, g.dw.w_up_eFD[expert]);
      ops::linear_backward_input(c.backend, dgate_nF, w.w_gate_eFD[expert], dx_nD, Write::kOverwrite);
      ops::linear_backward_input(c.backend, dup_nF, w.w_up_eFD[expert], dx_nD, Write::kAccumulate);
      ops::scatter_rows(c.backend, dx_nD, one.plan, g.dx_TD, Write::kAccumulate);
      // 0 for the choices of other experts: the sum over the experts is each choice's own.
      ops::slot_weights_backward(c.backend, dweight_n, one.plan, dweight_expert_TK);
      ops::add(c.backend, g.dweight_TK, dweight_expert_TK, g.dweight_TK);
    }
  }
};

}  // namespace

std::unique_ptr<Experts> make_reference_sparse_moe() { return std::make_unique<ReferenceSparseMoe>(); }

}  // namespace optimus
