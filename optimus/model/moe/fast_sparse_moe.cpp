// FastSparseMoE: five stages over all experts of this rank at once, on the rows of all ranks that chose them.
//
// Where ranks share the experts and there are rows enough, the rows are divided in two parts, and one travels while the other is computed on:
//
//   forward    dispatch A | dispatch B  ‖ experts of A | combine A  ‖ experts of B | combine B
//   backward   the same with gradients; combine B  ‖ the last weight gradients of B
//
// With and without overlap the parts are the same, and each adds to the weight gradients in turn: the results are the same bits.
// Source:   arXiv:2604.00785 §3. The transfers of stages 1 and 5 are the dispatcher's.
// Legend:   T rows, N rows at hand (those of all ranks), D hidden, F expert intermediate, e experts of this rank, K choices, R slots (capacity; those in use end at
//           segments_e[e]).

#include "optimus/model/moe/experts.hpp"
#include "optimus/ops/linear.hpp"
#include "optimus/ops/moe.hpp"

namespace optimus {
namespace {

/// Two parts where an expert can expect that many slots from each. Weights and their gradients are read twice then: with fewer slots this costs more than a tenth.
constexpr Index kSlotsOfAnExpert = 128;

/// What moves for one part.
struct PartTraffic {
  Traffic index, weight, rows;
};

/// The rows of `all` that belong to a part.
template <class AnyView> AnyView rows_of(const ExpertsPart& part, const AnyView& all) {
  return all.rows(part.route.rows.begin, part.route.rows.begin + part.route.rows.count);
}

/// A plan whose list of rows has the length that it has this time.
DispatchPlan plan_for(const DispatchPlan& memory, Index rows) {
  DispatchPlan plan = memory;
  plan.row_offsets_T = memory.row_offsets_T.rows(0, rows + 1);
  return plan;
}

/// Memory of all slots, seen as the products should see it.
View for_products(const MoeContext& c, const ExpertsPart& part, const View& all) { return c.is_planning ? all.rows(0, mean_slots(c, part)) : all; }

class FastSparseMoe : public Experts {
 public:
  [[nodiscard]] ExpertsSaved allocate(const MoeContext& c, Index rows) const override {
    const Index ranks = c.ep == nullptr ? 1 : c.ep->size(), experts = local_experts(c).count;
    const bool is_divided = ranks > 1 && rows * ranks * c.shape.top_k >= 2 * kSlotsOfAnExpert * c.shape.num_experts;
    const Index first = is_divided ? rows / 2 : rows;
    ExpertsSaved saved;
    saved.memory[saved.num_parts++] = allocate_part(c, {.begin = 0, .count = first}, experts);
    if (is_divided) saved.memory[saved.num_parts++] = allocate_part(c, {.begin = first, .count = rows - first}, experts);
    return saved;
  }

  void forward(const MoeContext& c, const ExpertWeights& w, ConstView x_TD, const Routing& routing, const ExpertsSaved& s, View y_TD) const override {
    Scratch scratch(c.arena);
    const auto parts = s.parts();
    std::array<Route, ExpertsSaved::kMaxParts> routes;
    for (std::size_t i = 0; i < parts.size(); ++i) routes[i] = parts[i].route;
    c.dispatcher.decide(c, routing.index_TK, std::span(routes).first(parts.size()));

    std::array<PartTraffic, ExpertsSaved::kMaxParts> traffic;
    traffic[0] = dispatch(c, parts[0], x_TD, routing);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      arrive(c, parts[i], traffic[i]);
      if (i + 1 < parts.size()) traffic[i + 1] = dispatch(c, parts[i + 1], x_TD, routing);
      if (y_TD.exists()) c.dispatcher.prepare_combine(c, parts[i].route, rows_of(parts[i], y_TD), traffic[i].rows);
      compute(c, w, parts[i], traffic[i]);
      if (y_TD.exists()) c.dispatcher.start_combine(c, parts[i].route, traffic[i].rows);
    }
    for (std::size_t i = 0; i < parts.size() && y_TD.exists(); ++i) c.dispatcher.finish_combine(c, parts[i].route, traffic[i].rows);
  }

  void backward(const MoeContext& c, const ExpertWeights& w, ConstView /*x_TD*/, const Routing& /*routing*/, const ExpertsSaved& s,
                const ExpertsGradient& g) const override {
    Scratch scratch(c.arena);
    const auto parts = s.parts();
    std::array<PartTraffic, ExpertsSaved::kMaxParts> traffic;
    const auto dispatch_dy = [&](std::size_t i) { traffic[i].rows = c.dispatcher.start_dispatch(c, parts[i].route, rows_of(parts[i], g.dy_TD)); };
    dispatch_dy(0);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      traffic[i].rows.wait();
      if (i + 1 < parts.size()) dispatch_dy(i + 1);
      c.dispatcher.prepare_combine(c, parts[i].route, rows_of(parts[i], g.dx_TD), traffic[i].rows);
      c.dispatcher.prepare_combine(c, parts[i].route, rows_of(parts[i], g.dweight_TK), traffic[i].weight);
      compute_backward(c, w, parts[i], traffic[i], g.dw);
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
      c.dispatcher.finish_combine(c, parts[i].route, traffic[i].rows);
      c.dispatcher.finish_combine(c, parts[i].route, traffic[i].weight);
    }
  }

 private:
  /// Stage 1. The choices go first: they are looked at while the rows are still on their way.
  static PartTraffic dispatch(const MoeContext& c, const ExpertsPart& part, ConstView x_TD, const Routing& routing) {
    PartTraffic traffic;
    traffic.index = c.dispatcher.start_dispatch(c, part.route, rows_of(part, ConstView(routing.index_TK)));
    traffic.weight = c.dispatcher.start_dispatch(c, part.route, rows_of(part, ConstView(routing.weight_TK)));
    traffic.rows = c.dispatcher.start_dispatch(c, part.route, rows_of(part, x_TD));
    return traffic;
  }

  /// Stages 2 and 3, and the gather of stage 4.
  static void arrive(const MoeContext& c, const ExpertsPart& part, PartTraffic& traffic) {
    const DispatchPlan plan = plan_for(part.plan, c.dispatcher.rows_at_hand(c, part.route));
    traffic.index.wait();
    ops::build_dispatch(c.backend, traffic.index.arrived_NW, local_experts(c).begin, plan);
    traffic.weight.wait();
    ops::slot_weights(c.backend, traffic.weight.arrived_NW, plan, part.weight_R);
    traffic.rows.wait();
    ops::gather_rows(c.backend, traffic.rows.arrived_NW, plan, part.x_RD);
  }

  /// Stage 4 and, unless only backward is to be served, the weighted sums of stage 5.
  static void compute(const MoeContext& c, const ExpertWeights& w, const ExpertsPart& part, const PartTraffic& traffic) {
    const View segments_e = part.plan.segments_e;
    const View x_RD = for_products(c, part, part.x_RD), gate_RF = for_products(c, part, part.gate_RF), up_RF = for_products(c, part, part.up_RF);
    ops::grouped_linear_forward(c.backend, x_RD, w.w_gate_eFD, segments_e, gate_RF);
    c.poll();
    ops::grouped_linear_forward(c.backend, x_RD, w.w_up_eFD, segments_e, up_RF);
    c.poll();
    if (!traffic.rows.sums_NW.exists()) return;

    Scratch scratch(c.arena);
    const View act_RF = scratch.like(part.gate_RF), y_RD = scratch.like(part.x_RD);
    ops::swiglu_forward(c.backend, part.gate_RF, part.up_RF, segments_e.rows(segments_e.size(0) - 1, segments_e.size(0)), act_RF);
    ops::grouped_linear_forward(c.backend, for_products(c, part, act_RF), w.w_down_eDF, segments_e, for_products(c, part, y_RD));
    c.poll();
    const DispatchPlan plan = plan_for(part.plan, traffic.rows.sums_NW.size(0));
    ops::combine_forward(c.backend, y_RD, traffic.weight.arrived_NW, plan, traffic.rows.sums_NW);
  }

  /// From the gradients of outputs at hand to those of the rows at hand, which then travel while the last weight gradients are computed.
  static void compute_backward(const MoeContext& c, const ExpertWeights& w, const ExpertsPart& part, PartTraffic& traffic, const ExpertWeights& dw) {
    Scratch scratch(c.arena);
    const View segments_e = part.plan.segments_e;
    const DispatchPlan plan = plan_for(part.plan, traffic.rows.arrived_NW.size(0));
    const View dy_all_RD = c.operand_like(part.x_RD), dact_all_RF = c.operand_like(part.gate_RF), dweight_R = scratch.like(part.weight_R);
    const View dy_RD = for_products(c, part, dy_all_RD), dact_RF = for_products(c, part, dact_all_RF), x_RD = for_products(c, part, part.x_RD);

    ops::gather_rows(c.backend, traffic.rows.arrived_NW, plan, dy_all_RD);
    ops::grouped_linear_backward_input(c.backend, dy_RD, w.w_down_eDF, segments_e, dact_RF, Write::kOverwrite);
    c.poll();
    // In place: the gradients of gate and up replace them, the weighted activation replaces its gradient.
    ops::expert_swiglu_backward(c.backend, dact_all_RF, part.gate_RF, part.up_RF, part.weight_R, segments_e,
                                {part.gate_RF, part.up_RF, dact_all_RF, dweight_R});
    const View dgate_RF = for_products(c, part, part.gate_RF), dup_RF = for_products(c, part, part.up_RF), weighted_act_RF = dact_RF;
    c.weight_gradient({.dy = dy_RD, .x = weighted_act_RF, .dw = dw.w_down_eDF, .segments_e = segments_e});
    c.poll();

    const View dx_all_RD = c.deferred != nullptr ? scratch.like(dy_all_RD) : dy_all_RD;  // dy_RD has been used up
    const View dx_RD = for_products(c, part, dx_all_RD);
    ops::grouped_linear_backward_input(c.backend, dgate_RF, w.w_gate_eFD, segments_e, dx_RD, Write::kOverwrite);
    c.poll();
    ops::grouped_linear_backward_input(c.backend, dup_RF, w.w_up_eFD, segments_e, dx_RD, Write::kAccumulate);
    ops::scatter_rows(c.backend, dx_all_RD, plan, traffic.rows.sums_NW, Write::kOverwrite);
    ops::slot_weights_backward(c.backend, dweight_R, plan, traffic.weight.sums_NW);
    c.dispatcher.start_combine(c, part.route, traffic.rows);
    c.dispatcher.start_combine(c, part.route, traffic.weight);

    c.weight_gradient({.dy = dgate_RF, .x = x_RD, .dw = dw.w_gate_eFD, .segments_e = segments_e});
    c.poll();
    c.weight_gradient({.dy = dup_RF, .x = x_RD, .dw = dw.w_up_eFD, .segments_e = segments_e});
    c.poll();
  }
};

}  // namespace

std::unique_ptr<Experts> make_fast_sparse_moe() { return std::make_unique<FastSparseMoe>(); }

}  // namespace optimus
