#pragma once
// The class behind make_cpu_backend: cuts each operation into ranges for threads; the loops themselves are in kernels/.

#include <vector>

#include "optimus/backend/backend.hpp"
#include "optimus/backend/cpu/isa.hpp"
#include "optimus/tensor/arena.hpp"

namespace optimus::cpu {

class CpuBackend final : public Backend {
 public:
  CpuBackend(int threads, Isa isa);

  [[nodiscard]] std::string description() const override;
  [[nodiscard]] bool supports(DType dtype) const override { return dtype == DType::kF32 || dtype == DType::kBF16; }

  void linear_forward(ConstView x_TI, ConstView w_OI, View y_TO) override;
  void linear_backward_input(ConstView dy_TO, ConstView w_OI, View dx_TI, Write write) override;
  void linear_backward_weight(ConstView dy_TO, ConstView x_TI, View dw_OI) override;
  void grouped_linear_forward(ConstView x_RI, ConstView w_eOI, ConstView segments_e, View y_RO) override;
  void grouped_linear_backward_input(ConstView dy_RO, ConstView w_eOI, ConstView segments_e, View dx_RI, Write write) override;
  void grouped_linear_backward_weight(ConstView dy_RO, ConstView x_RI, ConstView segments_e, View dw_eOI) override;

  void rms_norm_forward(ConstView x_TD, ConstView gain_D, double eps, View y_TD, View rstd_T) override;
  void rms_norm_backward(ConstView dy_TD, ConstView x_TD, ConstView gain_D, ConstView rstd_T, View dx_TD, Write write, View dgain_D) override;
  void row_sum_squares(ConstView x_TD, View sums_T) override;
  void rms_norm_rstd(ConstView sums_T, Index width, double eps, View rstd_T) override;
  void rms_norm_apply(ConstView x_TD, ConstView gain_D, ConstView rstd_T, View y_TD) override;
  void rms_norm_dots(const RmsNormPart& part, View dots_T) override;
  void rms_norm_backward_apply(const RmsNormPart& part, ConstView dots_T, View dx_TD, Write write, View dgain_D) override;
  void layer_norm_forward(ConstView x_TD, double eps, View y_TD, View mean_T, View rstd_T) override;
  void layer_norm_backward(ConstView dy_TD, ConstView x_TD, ConstView mean_T, ConstView rstd_T, View dx_TD, Write write) override;

  void attention_forward(const AttentionShape& shape, ConstView q, ConstView k, ConstView v, ConstView document_start, View o, View lse) override;
  void attention_backward(const AttentionShape& shape, ConstView d_o, const AttentionSaved& saved, const AttentionGradients& gradients) override;
  void reserve_attention(const AttentionShape& shape, DType dtype) override;
  void rope(View x, ConstView positions_T, ConstView cos, ConstView sin, Index head_size, bool is_backward) override;
  void clamp_forward(ConstView x, double limit, View y) override;
  void clamp_backward(ConstView dy, ConstView x, double limit, View dx) override;

  void router_logits_forward(ConstView x_TD, ConstView w_ED, View logits_TE) override;
  void router_logits_backward(ConstView dlogits_TE, ConstView x_TD, ConstView w_ED, View dx_TD, View dw_ED) override;
  void router_softmax(ConstView logits_TE, View p_TE, View lse_T) override;
  void router_top_k(ConstView p_TE, View index_TK) override;
  void router_uniform(Index first_row, Index num_experts, View index_TK) override;
  void router_weights(ConstView p_TE, ConstView index_TK, bool normalise, View weight_TK) override;
  void router_backward(const RouterGradient& g, View dlogits_TE) override;
  void expert_counts(ConstView index_TK, View counts_GE) override;
  void column_sums(ConstView p_TE, View sums_GE) override;
  void expert_ranks(ConstView index_TK, Index experts_per_rank, View rank_TK) override;
  void build_dispatch(ConstView index_TK, Index expert_begin, const DispatchPlan& plan) override;
  void gather_rows(ConstView x_TD, const DispatchPlan& plan, View x_RD) override;
  void scatter_rows(ConstView dx_RD, const DispatchPlan& plan, View dx_TD, Write write) override;
  void combine_forward(ConstView y_RD, ConstView weight_TK, const DispatchPlan& plan, View y_TD) override;
  void slot_weights(ConstView weight_TK, const DispatchPlan& plan, View weight_R) override;
  void slot_weights_backward(ConstView dweight_R, const DispatchPlan& plan, View dweight_TK) override;
  void swiglu_forward(ConstView gate_RF, ConstView up_RF, ConstView num_rows, View act_RF) override;
  void swiglu_backward(ConstView dact_RF, ConstView gate_RF, ConstView up_RF, View dgate_RF, View dup_RF) override;
  void expert_swiglu_backward(ConstView dact_RF, ConstView gate_RF, ConstView up_RF, ConstView weight_R, ConstView segments_e,
                              const ExpertActivationGradient& out) override;

  void cross_entropy_statistics(ConstView logits_TV, ConstView labels_T, Index vocab_begin, const SoftmaxStatistics& out) override;
  void combine_softmax_statistics(ConstView parts_M3T, const SoftmaxStatistics& out) override;
  void cross_entropy_loss(const SoftmaxStatistics& statistics, ConstView labels_T, View loss_T, View lse_T) override;
  void cross_entropy_gradient(ConstView logits_TV, ConstView labels_T, Index vocab_begin, ConstView lse_T, double scale, View dlogits_TV) override;
  void argmax(ConstView logits_TV, View index_T) override;

  void adamw_update(const AdamWStep& step, ConstView gradient, View master, View exp_avg, View exp_avg_sq, View weight) override;
  void sgd_update(double lr, double weight_decay, double gradient_scale, ConstView gradient, View master, View weight) override;
  [[nodiscard]] double sum_squares(ConstView x) override;

  void embedding_forward(ConstView w_VD, ConstView ids_T, Index vocab_begin, View x_TD) override;
  void embedding_backward(ConstView dx_TD, ConstView ids_T, Index vocab_begin, View dw_VD) override;
  void add(ConstView a, ConstView b, View out) override;
  void convert(ConstView in, View out) override;
  void fill_zero(View out) override;
  void copy(ConstView in, View out) override;

 private:
  void rms_backward(void (*kernel)(const NormArgs&, Index, Index), const RmsNormPart& part, ConstView dots_T, View dx_TD, Write write, View dgain_D);
  enum class Product { kForward, kBackwardInput, kBackwardWeight };
  /// One product of `kind` with row range [begin, end) of the tall views, appended to products_.
  void push_product(Product kind, ConstView tall, ConstView other, View out, bool accumulate);
  void grouped(Product kind, ConstView a, ConstView b, ConstView segments_e, View out, bool accumulate);
  /// Cuts products_ into tasks_ for all threads, runs them, and clears both.
  void run_products(int combination);
  void split_product(const GemmTask& product, Index area_per_task, int combination);

  /// Memory of all threads together, at least `bytes`; grows when a larger call is seen for the first time. Contents are lost.
  [[nodiscard]] std::byte* shared_scratch(Index bytes);
  /// The same, one piece for each thread.
  [[nodiscard]] std::byte* thread_scratch(int thread) const { return thread_scratch_[static_cast<std::size_t>(thread)].data(); }
  void reserve_thread_scratch(Index bytes);

  int threads_;
  Isa isa_;
  const KernelTable& kernels_;
  std::vector<GemmTask> products_, tasks_;
  Buffer shared_scratch_;
  std::vector<Buffer> thread_scratch_;
};

/// 0 for f32, 1 for bf16: the tables' order.  Errors: UnsupportedError for anything else.
[[nodiscard]] int element(DType dtype);
[[nodiscard]] inline int element(ConstView view) { return element(view.dtype()); }

}  // namespace optimus::cpu
