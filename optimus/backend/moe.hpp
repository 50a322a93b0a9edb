#pragma once
// Routing, dispatch and the expert activation. Documented in optimus/ops/moe.hpp.

#include "optimus/backend/gemm.hpp"

namespace optimus {

/// Which row goes where: the result of token counting and index generation. Views into memory of the caller.
///
/// A *slot* is one (row, choice) pair whose expert is local. R slots in all, R <= T*K; views hold capacity for the worst case.
struct DispatchPlan {
  View segments_e;        ///< i64 [e + 1]: slots of local expert j are [segments[j], segments[j+1]) in expert-major order
  View input_indices_R;   ///< i32: row of the i-th slot in expert-major order
  View row_offsets_T;     ///< i64 [T + 1]: slots of row t are [row_offsets[t], row_offsets[t+1]) in row-major order
  View output_indices_R;  ///< i32: expert-major place of the o-th slot in row-major order
  View selected_k_R;      ///< i32: which of its row's K choices the o-th row-major slot is
};

class MoeKernels {
 public:
  virtual ~MoeKernels() = default;
  virtual void router_logits_forward(ConstView x_TD, ConstView w_ED, View logits_TE) = 0;
  virtual void router_logits_backward(ConstView dlogits_TE, ConstView x_TD, ConstView w_ED, View dx_TD, View dw_ED) = 0;
  virtual void router_softmax(ConstView logits_TE, View p_TE, View lse_T) = 0;
  virtual void router_top_k(ConstView p_TE, View index_TK) = 0;
  virtual void router_uniform(Index first_row, Index num_experts, View index_TK) = 0;
  virtual void router_weights(ConstView p_TE, ConstView index_TK, bool normalise, View weight_TK) = 0;
  struct RouterGradient {
    ConstView p_TE, lse_T, index_TK, weight_TK, dweight_TK, dp_GE;
    double z_scale = 0;
    bool normalise = false;
  };
  virtual void router_backward(const RouterGradient& g, View dlogits_TE) = 0;
  virtual void expert_counts(ConstView index_TK, View counts_GE) = 0;
  virtual void column_sums(ConstView p_TE, View sums_GE) = 0;
  virtual void expert_ranks(ConstView index_TK, Index experts_per_rank, View rank_TK) = 0;
  virtual void build_dispatch(ConstView index_TK, Index expert_begin, const DispatchPlan& plan) = 0;
  virtual void gather_rows(ConstView x_TD, const DispatchPlan& plan, View x_RD) = 0;
  virtual void scatter_rows(ConstView dx_RD, const DispatchPlan& plan, View dx_TD, Write write) = 0;
  virtual void combine_forward(ConstView y_RD, ConstView weight_TK, const DispatchPlan& plan, View y_TD) = 0;
  virtual void slot_weights(ConstView weight_TK, const DispatchPlan& plan, View weight_R) = 0;
  virtual void slot_weights_backward(ConstView dweight_R, const DispatchPlan& plan, View dweight_TK) = 0;
  virtual void swiglu_forward(ConstView gate_RF, ConstView up_RF, ConstView num_rows, View act_RF) = 0;
  virtual void swiglu_backward(ConstView dact_RF, ConstView gate_RF, ConstView up_RF, View dgate_RF, View dup_RF) = 0;
  struct ExpertActivationGradient {
    View dgate_RF, dup_RF, weighted_act_RF, dweight_R;
  };
  virtual void expert_swiglu_backward(ConstView dact_RF, ConstView gate_RF, ConstView up_RF, ConstView weight_R, ConstView segments_e,
                                      const ExpertActivationGradient& out) = 0;
};

}  // namespace optimus
