#include "optimus/backend/dry/dry_backend.hpp"

#include <initializer_list>

namespace optimus {
namespace {

class CountingBackend final : public DryBackend {
 public:
  [[nodiscard]] std::string description() const override { return "dry (computes nothing)"; }
  [[nodiscard]] bool supports(DType dtype) const override { return dtype == DType::kF64 || dtype == DType::kF32 || dtype == DType::kBF16; }
  [[nodiscard]] const WorkCount& work() const override { return work_; }

  void linear_forward(ConstView x_TI, ConstView w_OI, View) override { product(x_TI, w_OI.size(0)); }
  void linear_backward_input(ConstView dy_TO, ConstView w_OI, View, Write) override { product(dy_TO, w_OI.size(1)); }
  void linear_backward_weight(ConstView dy_TO, ConstView x_TI, View) override { product(dy_TO, x_TI.size(1)); }
  void grouped_linear_forward(ConstView x_RI, ConstView w_eOI, ConstView, View) override { product(x_RI, w_eOI.size(1)); }
  void grouped_linear_backward_input(ConstView dy_RO, ConstView w_eOI, ConstView, View, Write) override { product(dy_RO, w_eOI.size(2)); }
  void grouped_linear_backward_weight(ConstView dy_RO, ConstView x_RI, ConstView, View) override { product(dy_RO, x_RI.size(1)); }

  void rms_norm_forward(ConstView x, ConstView gain, double, View y, View rstd) override { moves({x, gain, y, rstd}); }
  void rms_norm_backward(ConstView dy, ConstView x, ConstView gain, ConstView rstd, View dx, Write write, View dgain) override {
    moves({dy, x, gain, rstd, dgain, dgain});
    writes(dx, write);
  }
  void row_sum_squares(ConstView x, View sums) override { moves({x, sums}); }
  void rms_norm_rstd(ConstView sums, Index, double, View rstd) override { moves({sums, rstd}); }
  void rms_norm_apply(ConstView x, ConstView gain, ConstView rstd, View y) override { moves({x, gain, rstd, y}); }
  void rms_norm_dots(const RmsNormPart& part, View dots) override { moves({part.dy_TD, part.x_TD, part.gain_D, part.rstd_T, dots}); }
  void rms_norm_backward_apply(const RmsNormPart& part, ConstView dots, View dx, Write write, View dgain) override {
    moves({part.dy_TD, part.x_TD, part.gain_D, part.rstd_T, dots, dgain, dgain});
    writes(dx, write);
  }
  void layer_norm_forward(ConstView x, double, View y, View mean, View rstd) override { moves({x, y, mean, rstd}); }
  void layer_norm_backward(ConstView dy, ConstView x, ConstView mean, ConstView rstd, View dx, Write write) override {
    moves({dy, x, mean, rstd});
    writes(dx, write);
  }

  void attention_forward(const AttentionShape& shape, ConstView, ConstView, ConstView, ConstView, View, View) override { attention(shape, 2); }
  void attention_backward(const AttentionShape& shape, ConstView, const AttentionSaved&, const AttentionGradients&) override { attention(shape, 4); }
  void reserve_attention(const AttentionShape&, DType) override {}
  void rope(View x, ConstView positions, ConstView cos, ConstView sin, Index, bool) override { moves({x, x, positions, cos, sin}); }
  void clamp_forward(ConstView x, double, View y) override { moves({x, y}); }
  void clamp_backward(ConstView dy, ConstView x, double, View dx) override { moves({dy, x, dx}); }

  void router_logits_forward(ConstView x_TD, ConstView w_ED, View) override { product(x_TD, w_ED.size(0)); }
  void router_logits_backward(ConstView dlogits_TE, ConstView x_TD, ConstView, View, View) override {
    product(dlogits_TE, x_TD.size(1));
    product(dlogits_TE, x_TD.size(1));
  }
  void router_softmax(ConstView logits, View p, View lse) override { moves({logits, p, lse}); }
  void router_top_k(ConstView p, View index) override { moves({p, index}); }
  void router_uniform(Index, Index, View index) override { moves({index}); }
  void router_weights(ConstView, ConstView index, bool, View weight) override { moves({weight, index, weight}); }  // reads as many p as it writes weights
  void router_backward(const RouterGradient& g, View dlogits) override {
    moves({g.p_TE, g.lse_T, g.index_TK, g.weight_TK, g.dweight_TK, dlogits});
    if (g.dp_GE.exists()) moves({g.dp_GE});
  }
  void expert_counts(ConstView index, View counts) override { moves({index, counts}); }
  void column_sums(ConstView p, View sums) override { moves({p, sums}); }
  void expert_ranks(ConstView index, Index, View rank) override { moves({index, rank}); }
  void build_dispatch(ConstView index, Index, const DispatchPlan& plan) override {
    moves({index, index, plan.segments_e, plan.input_indices_R, plan.row_offsets_T, plan.output_indices_R, plan.selected_k_R});
  }
  void gather_rows(ConstView, const DispatchPlan& plan, View x_RD) override { moves({x_RD, x_RD, plan.input_indices_R}); }
  void scatter_rows(ConstView dx_RD, const DispatchPlan& plan, View dx_TD, Write write) override {
    moves({dx_RD, plan.row_offsets_T, plan.output_indices_R});
    writes(dx_TD, write);
  }
  void combine_forward(ConstView y_RD, ConstView weight, const DispatchPlan& plan, View y_TD) override {
    moves({y_RD, weight, plan.row_offsets_T, plan.output_indices_R, plan.selected_k_R, y_TD});
  }
  void slot_weights(ConstView weight, const DispatchPlan& plan, View weight_R) override { moves({weight, plan.output_indices_R, plan.selected_k_R, weight_R}); }
  void slot_weights_backward(ConstView dweight_R, const DispatchPlan& plan, View dweight) override {
    moves({dweight_R, plan.output_indices_R, plan.selected_k_R, dweight});
  }
  void swiglu_forward(ConstView gate, ConstView up, ConstView, View act) override { moves({gate, up, act}); }
  void swiglu_backward(ConstView dact, ConstView gate, ConstView up, View dgate, View dup) override { moves({dact, gate, up, dgate, dup}); }
  void expert_swiglu_backward(ConstView dact, ConstView gate, ConstView up, ConstView weight, ConstView, const ExpertActivationGradient& out) override {
    moves({dact, gate, up, weight, out.dgate_RF, out.dup_RF, out.weighted_act_RF, out.dweight_R});
  }

  void cross_entropy_statistics(ConstView logits, ConstView labels, Index, const SoftmaxStatistics& out) override {
    moves({logits, labels, out.max_T, out.sum_T, out.target_T});
  }
  void combine_softmax_statistics(ConstView parts, const SoftmaxStatistics& out) override { moves({parts, out.max_T, out.sum_T, out.target_T}); }
  void cross_entropy_loss(const SoftmaxStatistics& in, ConstView labels, View loss, View lse) override {
    moves({in.max_T, in.sum_T, in.target_T, labels, loss, lse});
  }
  void cross_entropy_gradient(ConstView logits, ConstView labels, Index, ConstView lse, double, View dlogits) override {
    moves({logits, labels, lse, dlogits});
  }
  void argmax(ConstView logits, View index) override { moves({logits, index}); }

  void adamw_update(const AdamWStep&, ConstView gradient, View master, View exp_avg, View exp_avg_sq, View weight) override {
    moves({gradient, master, master, exp_avg, exp_avg, exp_avg_sq, exp_avg_sq, weight});
  }
  void sgd_update(double, double, double, ConstView gradient, View master, View weight) override { moves({gradient, master, master, weight}); }
  [[nodiscard]] double sum_squares(ConstView x) override {
    moves({x});
    return 0;
  }

  void embedding_forward(ConstView, ConstView ids, Index, View x) override { moves({x, ids, x}); }
  void embedding_backward(ConstView dx, ConstView ids, Index, View) override { moves({dx, ids, dx, dx}); }  // as many rows of dw are read and written
  void add(ConstView a, ConstView b, View out) override { moves({a, b, out}); }
  void convert(ConstView in, View out) override { moves({in, out}); }
  void fill_zero(View out) override { moves({out}); }
  void copy(ConstView in, View out) override { moves({in, out}); }

 private:
  /// A product in which every element of `rows` meets `partners` others: one multiplication and one addition each.
  void product(ConstView rows, Index partners) { work_.gemm_flops += 2.0 * static_cast<double>(rows.count()) * static_cast<double>(partners); }
  /// `products` matrix products over the (query, key) pairs that causality lets through.
  void attention(const AttentionShape& s, int products) {
    const auto queries = static_cast<double>(s.queries), keys = static_cast<double>(s.keys);
    const double pairs = queries * (keys - queries) + queries * (queries + 1) / 2;
    work_.attention_flops += 2.0 * products * pairs * static_cast<double>(s.head_size) * static_cast<double>(s.heads) * static_cast<double>(s.batch);
  }
  void moves(std::initializer_list<ConstView> views) {
    for (const ConstView& view : views) work_.other_bytes += static_cast<double>(view.bytes());
  }
  void writes(ConstView view, Write write) { work_.other_bytes += (write == Write::kAccumulate ? 2.0 : 1.0) * static_cast<double>(view.bytes()); }

  WorkCount work_;
};

}  // namespace

std::unique_ptr<DryBackend> make_dry_backend() { return std::make_unique<CountingBackend>(); }

}  // namespace optimus
