// SparseMoE, the plain block: a loop over the experts, each with its own gather, three products and scatter-add.
//
// No grouped product and no expert-major combination: what FastSparseMoE is compared with, for its results and for its speed. Where ranks share the experts, the
// loop runs over this rank's, on the rows of all ranks that a dispatcher brings; nothing travels while it runs.
// Legend:   T rows, N rows at hand (those of all ranks), D hidden, F expert intermediate, n rows of the expert at the moment.

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

/// Finds the rows at hand that chose the local expert `expert`; its saved rows follow the `begin` rows of the experts before it.
OneExpert find_expert(const MoeContext& c, ConstView index_NK, const ExpertsPart& s, Index expert, Index begin) {
  DispatchPlan all = s.plan;
  all.row_offsets_T = s.plan.row_offsets_T.rows(0, index_NK.size(0) + 1);
  const IndexRange experts = local_experts(c);
  ops::build_dispatch(c.backend, index_NK, experts.begin + expert, all);
  // A plan for memory and arithmetic takes an even share of the slots that are left, so that each is counted once.
  const Index n = c.is_planning ? ceil_div(mean_slots(c, s) - begin, experts.count - expert) : all.segments_e.span<std::int64_t>()[1];
  return {.plan = first_slots(all, n),
          .x_nD = s.x_RD.rows(begin, begin + n),
          .gate_nF = s.gate_RF.rows(begin, begin + n),
          .up_nF = s.up_RF.rows(begin, begin + n),
          .weight_n = s.weight_R.rows(begin, begin + n)};
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

/// y_ND[row of i] += weight[i] * y_nD[i].   Scratch: weighted_nD.
void weighted_scatter_add(const MoeContext& c, const DispatchPlan& identity, const OneExpert& one, ConstView y_nD, View weighted_nD, View y_ND) {
  const Index n = y_nD.size(0);
  DispatchPlan own = first_slots(identity, n);
  own.segments_e = one.plan.segments_e;
  own.row_offsets_T = identity.row_offsets_T.rows(0, n + 1);
  ops::combine_forward(c.backend, y_nD, one.weight_n.reshaped({n, 1}), own, weighted_nD);
  ops::scatter_rows(c.backend, weighted_nD, one.plan, y_ND, Write::kAccumulate);
}

class ReferenceSparseMoe : public Experts {
 public:
  [[nodiscard]] ExpertsSaved allocate(const MoeContext& c, Index rows) const override {
    ExpertsSaved saved;
    saved.memory[saved.num_parts++] = allocate_part(c, {.begin = 0, .count = rows}, 1);
    return saved;
  }

  void forward(const MoeContext& c, const ExpertWeights& w, ConstView x_TD, const Routing& routing, const ExpertsSaved& saved, View y_TD) const override {
    Scratch scratch(c.arena);
    const ExpertsPart& s = saved.memory[0];
    c.dispatcher.decide(c, routing.index_TK, std::span(&s.route, 1));
    Traffic x = dispatch(c, s, x_TD), index = dispatch(c, s, routing.index_TK), weight = dispatch(c, s, routing.weight_TK), y;
    const Index at_hand = c.dispatcher.rows_at_hand(c, s.route);
    DispatchPlan identity;
    View act_NF, y_expert_ND, weighted_ND;
    if (y_TD.exists()) {
      c.dispatcher.prepare_combine(c, s.route, y_TD, y);
      identity = rows_as_slots(c, scratch, at_hand);
      act_NF = scratch.alloc(c.dtype, {at_hand, c.shape.intermediate_size});
      y_expert_ND = scratch.like(y.sums_NW);
      weighted_ND = scratch.like(y.sums_NW);
      ops::fill_zero(c.backend, y.sums_NW);
    }
    for (Index expert = 0, begin = 0; expert < local_experts(c).count; ++expert) {
      const OneExpert one = find_expert(c, index.arrived_NW, s, expert, begin);
      const Index n = one.x_nD.size(0);
      begin += n;
      ops::slot_weights(c.backend, weight.arrived_NW, one.plan, one.weight_n);
      ops::gather_rows(c.backend, x.arrived_NW, one.plan, one.x_nD);
      ops::linear_forward(c.backend, one.x_nD, w.w_gate_eFD[expert], one.gate_nF);
      ops::linear_forward(c.backend, one.x_nD, w.w_up_eFD[expert], one.up_nF);
      if (!y_TD.exists()) continue;
      const View act_nF = act_NF.rows(0, n), y_nD = y_expert_ND.rows(0, n);
      ops::swiglu_forward(c.backend, one.gate_nF, one.up_nF, {}, act_nF);
      ops::linear_forward(c.backend, act_nF, w.w_down_eDF[expert], y_nD);
      weighted_scatter_add(c, identity, one, y_nD, weighted_ND.rows(0, n), y.sums_NW);
    }
    if (y_TD.exists()) combine(c, s, y);
  }

  void backward(const MoeContext& c, const ExpertWeights& w, ConstView /*x_TD*/, const Routing& routing, const ExpertsSaved& saved,
                const ExpertsGradient& g) const override {
    Scratch scratch(c.arena);
    const ExpertsPart& s = saved.memory[0];
    Traffic dy = dispatch(c, s, g.dy_TD), index = dispatch(c, s, routing.index_TK), dx, dweight;
    c.dispatcher.prepare_combine(c, s.route, g.dx_TD, dx);
    c.dispatcher.prepare_combine(c, s.route, g.dweight_TK, dweight);
    const Index at_hand = c.dispatcher.rows_at_hand(c, s.route);
    // Of one expert at a time, over and over; of all of them where the weight gradients are made later.
    const View dy_experts_RD = c.deferred != nullptr ? c.operand_like(s.x_RD) : scratch.like(dx.sums_NW);
    const View dact_experts_RF = c.deferred != nullptr ? c.operand_like(s.gate_RF) : scratch.alloc(c.dtype, {at_hand, c.shape.intermediate_size});
    const View dx_expert_ND = c.deferred != nullptr ? scratch.like(dx.sums_NW) : dy_experts_RD;
    const View dweight_N = scratch.alloc(c.wide, {at_hand}), dweight_expert_NK = scratch.like(dweight.sums_NW);
    ops::fill_zero(c.backend, dx.sums_NW);
    ops::fill_zero(c.backend, dweight.sums_NW);
    for (Index expert = 0, begin = 0; expert < local_experts(c).count; ++expert) {
      const OneExpert one = find_expert(c, index.arrived_NW, s, expert, begin);
      const Index n = one.x_nD.size(0);
      const Index at = c.deferred != nullptr ? begin : 0;
      begin += n;
      const View dy_nD = dy_experts_RD.rows(at, at + n), dact_nF = dact_experts_RF.rows(at, at + n), dx_nD = dx_expert_ND.rows(0, n);
      const View dgate_nF = one.gate_nF, dup_nF = one.up_nF, weighted_act_nF = dact_nF, dweight_n = dweight_N.rows(0, n);  // in place
      ops::gather_rows(c.backend, dy.arrived_NW, one.plan, dy_nD);
      ops::linear_backward_input(c.backend, dy_nD, w.w_down_eDF[expert], dact_nF, Write::kOverwrite);
      ops::expert_swiglu_backward(c.backend, dact_nF, one.gate_nF, one.up_nF, one.weight_n, one.plan.segments_e,
                                  {dgate_nF, dup_nF, weighted_act_nF, dweight_n});
      c.weight_gradient({.dy = dy_nD, .x = weighted_act_nF, .dw = g.dw.w_down_eDF[expert], .segments_e = {}});
      c.weight_gradient({.dy = dgate_nF, .x = one.x_nD, .dw = g.dw.w_gate_eFD[expert], .segments_e = {}});
      c.weight_gradient({.dy = dup_nF, .x = one.x_nD, .dw = g.dw.w_up_eFD[expert], .segments_e = {}});
      ops::linear_backward_input(c.backend, dgate_nF, w.w_gate_eFD[expert], dx_nD, Write::kOverwrite);
      ops::linear_backward_input(c.backend, dup_nF, w.w_up_eFD[expert], dx_nD, Write::kAccumulate);
      ops::scatter_rows(c.backend, dx_nD, one.plan, dx.sums_NW, Write::kAccumulate);
      // 0 for the choices of other experts: the sum over the experts is each choice's own.
      ops::slot_weights_backward(c.backend, dweight_n, one.plan, dweight_expert_NK);
      ops::add(c.backend, dweight.sums_NW, dweight_expert_NK, dweight.sums_NW);
    }
    combine(c, s, dx);
    combine(c, s, dweight);
  }

 private:
  static Traffic dispatch(const MoeContext& c, const ExpertsPart& s, ConstView rows_TW) {
    Traffic traffic = c.dispatcher.start_dispatch(c, s.route, rows_TW);
    traffic.wait();
    return traffic;
  }
  static void combine(const MoeContext& c, const ExpertsPart& s, Traffic& traffic) {
    c.dispatcher.start_combine(c, s.route, traffic);
    c.dispatcher.finish_combine(c, s.route, traffic);
  }
};

}  // namespace

std::unique_ptr<Experts> make_reference_sparse_moe() { return std::make_unique<ReferenceSparseMoe>(); }

}  // namespace optimus
