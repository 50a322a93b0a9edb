#pragma once
// Routing of tokens to experts and the data movement around grouped expert products.
//
// Legend: T rows (tokens), E experts of the layer, e experts on this rank, K choices of a row, R slots = (row, choice) pairs that fall on local experts,
// G equal groups of consecutive rows (1, or one per sequence). Slot-indexed views have capacity for the worst routing; rows beyond R are neither read nor written.

#include "optimus/backend/backend.hpp"

namespace optimus::ops {

/// logits[t,e] = sum_d x[t,d] * w[e,d], in f32 whatever the type of x and w.
///
/// Types:    x, w equal (f64, f32, bf16); logits f32 (f64: f64).
void router_logits_forward(Backend& backend, ConstView x_TD, ConstView w_ED, View logits_TE);

/// dx[t,d] += sum_e dlogits[t,e] * w[e,d];   dw[e,d] += sum_t dlogits[t,e] * x[t,d].   dw f32 or the type of w; dlogits stays f32 in the products.
void router_logits_backward(Backend& backend, ConstView dlogits_TE, ConstView x_TD, ConstView w_ED, View dx_TD, View dw_ED);

/// lse[t] = log sum_e exp(logits[t,e]);   p[t,e] = exp(logits[t,e] - lse[t]).   All f32 (f64).
void router_softmax(Backend& backend, ConstView logits_TE, View p_TE, View lse_T);

/// index[t,:] = the K experts with the largest p, largest first, ties to the lower expert.   index i32.
void router_top_k(Backend& backend, ConstView p_TE, View index_TK);

/// index[t,j] = (first_row + t + j) mod num_experts: forced uniform routing for measurements.
void router_uniform(Backend& backend, Index first_row, Index num_experts, View index_TK);

/// weight[t,k] = p[t, index[t,k]], divided by their sum over k if `normalise`.
/// (Forced uniform routing's weights, the softmax over its K logits, are these with normalise = true.)
void router_weights(Backend& backend, ConstView p_TE, ConstView index_TK, bool normalise, View weight_TK);

/// Gradient of the routing weights, the balancing loss and the z-loss with respect to the logits.
///
///   g[t,e] = dp_GE[group of t, e] + (dweight, taken back through the division if `normalise`, at the chosen experts; 0 elsewhere)
///   dlogits[t,e] = p[t,e] * (g[t,e] - sum_e' p[t,e'] * g[t,e']) + 2 * z_scale * lse[t] * p[t,e]
///
/// Shapes:   dp_GE [G, E] f32: gradient of the balancing loss, T a multiple of G; does not exist: none.
/// Writes:   dlogits_TE, overwritten.
void router_backward(Backend& backend, const MoeKernels::RouterGradient& gradient, View dlogits_TE);

/// counts[g,e] = number of choices of expert e among the rows of group g.   counts i64 [G, E], overwritten.
void expert_counts(Backend& backend, ConstView index_TK, View counts_GE);

/// sums[g,e] = sum of p[t,e] over the rows of group g, in f64.   sums f64 [G, E], overwritten; bitwise equal for any number of threads.
void column_sums(Backend& backend, ConstView p_TE, View sums_GE);

/// rank_TK[t,:] = the ranks that hold row t's experts, each once, ascending, then -1. Rank r holds [r * experts_per_rank, (r + 1) * experts_per_rank).   i32.
void expert_ranks(Backend& backend, ConstView index_TK, Index experts_per_rank, View rank_TK);

/// Token counting and index generation for the local experts [expert_begin, expert_begin + e), e = segments_e.size(0) - 1.
///
/// Over fixed blocks of rows: count per (expert, block) and per row; prefix sums give every block its write position in every segment; a
/// second walk fills the indices. No atomics; stable in row order; any T (short last block), any number of rows per expert including 0.
/// Shapes:   lists of T * min(K, e) slots or more: a row chooses an expert once. A choice of -1 is of no expert.
/// Writes:   all of `plan`, overwritten (entries [0, R) of the slot lists).
/// Source:   arXiv:2604.00785 §3, stages 2 and 3.
void build_dispatch(Backend& backend, ConstView index_TK, Index expert_begin, const DispatchPlan& plan);

/// x_RD[i] = x_TD[input_indices[i]]
///
/// Types:    x_RD and x_TD equal, i32 among others; of scatter_rows and combine_forward equal too, and not i32.
void gather_rows(Backend& backend, ConstView x_TD, const DispatchPlan& plan, View x_RD);

/// dx_TD[t] (+)= sum over slots o of row t of dx_RD[output_indices[o]], in f32, in slot order: the gradient of gather_rows.
void scatter_rows(Backend& backend, ConstView dx_RD, const DispatchPlan& plan, View dx_TD, Write write);

/// y_TD[t] = sum over slots o of row t of weight[t, selected_k[o]] * y_RD[output_indices[o]], in f32, in slot order; 0 for a row without slots.
/// weight f32 (f64: f64). y_TD is overwritten.
void combine_forward(Backend& backend, ConstView y_RD, ConstView weight_TK, const DispatchPlan& plan, View y_TD);

/// weight_R[output_indices[o]] = weight_TK[t, selected_k[o]]: routing weights in expert-major order. f32 (f64).
void slot_weights(Backend& backend, ConstView weight_TK, const DispatchPlan& plan, View weight_R);
/// dweight_TK[t, selected_k[o]] = dweight_R[output_indices[o]]; 0 for choices that are not local.
void slot_weights_backward(Backend& backend, ConstView dweight_R, const DispatchPlan& plan, View dweight_TK);

/// act = gate * sigmoid(gate) * up, for the first num_rows[0] rows (i64 [1]; does not exist: all rows).
void swiglu_forward(Backend& backend, ConstView gate_RF, ConstView up_RF, ConstView num_rows, View act_RF);

///   s = sigmoid(gate);  dup = dact * gate*s;  dgate = dact * up * s * (1 + gate*(1 - s)).   dgate may alias gate, dup may alias up.
void swiglu_backward(Backend& backend, ConstView dact_RF, ConstView gate_RF, ConstView up_RF, View dgate_RF, View dup_RF);

/// Backward of weight[r] * down(act(gate, up)) from dact = d(output) * Wdown *before* the routing weight: one pass gives the gradients of
/// gate and up, the routing weight's gradient without the expert's output, and what the down weight's gradient needs.
///
///   act = gate*s*up;   dweight[r] = sum_f act[r,f] * dact[r,f];   weighted_act[r,f] = weight[r] * act[r,f]
///   dgate, dup: those of swiglu_backward given weight[r] * dact[r,f]
///
/// Shapes:   all [R, F], weight_R and dweight_R f32 [R] (f64: f64); rows [0, segments[e]) only.
/// Writes:   the four outputs, overwritten; dgate may alias gate, dup may alias up, weighted_act may alias dact.
void expert_swiglu_backward(Backend& backend, ConstView dact_RF, ConstView gate_RF, ConstView up_RF, ConstView weight_R, ConstView segments_e,
                            const MoeKernels::ExpertActivationGradient& out);

}  // namespace optimus::ops
