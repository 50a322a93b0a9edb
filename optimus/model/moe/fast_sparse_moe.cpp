// FastSparseMoE: five stages over all experts of this rank at once.
//
// Source:   arXiv:2604.00785 §3. Stages 1 to 3 and 5 are the dispatcher's, stage 4 is here.
// Legend:   T rows, D hidden, F expert intermediate, e experts of this rank, K choices, R slots (capacity; those in use end at segments_e[e]).

#include "optimus/model/moe/experts.hpp"
#include "optimus/ops/linear.hpp"
#include "optimus/ops/moe.hpp"

namespace optimus {
namespace {

class FastSparseMoe : public Experts {
 public:
  [[nodiscard]] ExpertsSaved allocate(const MoeContext& c, Index rows) const override {
    const Index slots = c.dispatcher.slot_capacity(c.shape, rows);
    return {.dispatch = c.dispatcher.allocate(c, rows),
            .x_RD = c.kept->alloc(c.dtype, {slots, c.shape.hidden_size}),
            .gate_RF = c.kept->alloc(c.dtype, {slots, c.shape.intermediate_size}),
            .up_RF = c.kept->alloc(c.dtype, {slots, c.shape.intermediate_size})};
  }

  void forward(const MoeContext& c, const ExpertWeights& w, ConstView x_TD, const Routing& routing, const ExpertsSaved& s, View y_TD) const override {
    const View segments_e = s.dispatch.plan.segments_e;
    c.dispatcher.forward(c, x_TD, routing, s.dispatch, s.x_RD);
    ops::grouped_linear_forward(c.backend, s.x_RD, w.w_gate_eFD, segments_e, s.gate_RF);
    ops::grouped_linear_forward(c.backend, s.x_RD, w.w_up_eFD, segments_e, s.up_RF);
    if (!y_TD.exists()) return;

    Scratch scratch(c.arena);
    const View act_RF = scratch.like(s.gate_RF), y_RD = scratch.like(s.x_RD);
    ops::swiglu_forward(c.backend, s.gate_RF, s.up_RF, segments_e.rows(segments_e.size(0) - 1, segments_e.size(0)), act_RF);
    ops::grouped_linear_forward(c.backend, act_RF, w.w_down_eDF, segments_e, y_RD);
    c.dispatcher.combine(c, y_RD, routing, s.dispatch, y_TD);
  }

  void backward(const MoeContext& c, const ExpertWeights& w, ConstView /*x_TD*/, const Routing& /*routing*/, const ExpertsSaved& s,
                const ExpertsGradient& g) const override {
    Scratch scratch(c.arena);
    const View segments_e = s.dispatch.plan.segments_e;
    const View dy_RD = scratch.like(s.x_RD), dact_RF = scratch.like(s.gate_RF), dweight_R = scratch.like(s.dispatch.weight_R);

    c.dispatcher.combine_backward(c, g.dy_TD, s.dispatch, dy_RD);
    ops::grouped_linear_backward_input(c.backend, dy_RD, w.w_down_eDF, segments_e, dact_RF, Write::kOverwrite);
    // In place: the gradients of gate and up replace them, the weighted activation replaces its gradient.
    const View dgate_RF = s.gate_RF, dup_RF = s.up_RF, weighted_act_RF = dact_RF;
    ops::expert_swiglu_backward(c.backend, dact_RF, s.gate_RF, s.up_RF, s.dispatch.weight_R, segments_e, {dgate_RF, dup_RF, weighted_act_RF, dweight_R});
    ops::grouped_linear_backward_weight(c.backend, dy_RD, weighted_act_RF, segments_e, g.dw.w_down_eDF);
    ops::grouped_linear_backward_weight(c.backend, dgate_RF, s.x_RD, segments_e, g.dw.w_gate_eFD);
    ops::grouped_linear_backward_weight(c.backend, dup_RF, s.x_RD, segments_e, g.dw.w_up_eFD);

    const View dx_RD = dy_RD;  // dy_RD has been used up
    ops::grouped_linear_backward_input(c.backend, dgate_RF, w.w_gate_eFD, segments_e, dx_RD, Write::kOverwrite);
    ops::grouped_linear_backward_input(c.backend, dup_RF, w.w_up_eFD, segments_e, dx_RD, Write::kAccumulate);
    c.dispatcher.backward(c, dx_RD, dweight_R, s.dispatch, g.dx_TD, g.dweight_TK);
  }
};

}  // namespace

std::unique_ptr<Experts> make_fast_sparse_moe() { return std::make_unique<FastSparseMoe>(); }

}  // namespace optimus
