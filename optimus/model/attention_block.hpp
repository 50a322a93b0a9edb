#pragma once
// Self-attention with its projections: queries, keys and values of n = norm(x), rotary positions, causal attention, output projection.
//
//   q = rope(clip(norm_q(Wq n)));   k = rope(clip(norm_k(Wk n)));   v = clip(Wv n);   y = Wo attention(q, k, v)
//
// norm_q and norm_k act on the whole projection, before it is split into heads, and only in OLMoE; the clip only if clip_qkv is set.
//
// Under tensor parallelism a rank has some of the heads: from all rows n it makes its part of the sum over heads that is y, and its part of the sum that is dn.
// Norms over the whole projection add up what they need between the ranks.

#include "optimus/model/context.hpp"

namespace optimus {

/// Weights, or their gradients.
struct AttentionWeights {
  View w_q_QD, w_k_GD, w_v_GD, w_o_DQ, q_norm_Q, k_norm_G;
};

/// One of the three projections. `raw` is the product before norm and clip; without either it is `out`.
struct ProjectionSaved {
  View raw, rstd_T, out;
};

struct AttentionSaved {
  ProjectionSaved q, k, v;
  View rstd_2T;  ///< of the norms of queries and keys, one after the other; does not exist without them
  View o_TQ, lse_BHS;
};

[[nodiscard]] AttentionSaved allocate_attention(const ModelContext& c);

/// Fills q, k and v of `s`.
void attention_project(const ModelContext& c, const AttentionWeights& w, ConstView n_TD, const AttentionSaved& s);

/// Writes `s` and y_TD. A y_TD that does not exist: only what backward needs (recomputation).
void attention_block_forward(const ModelContext& c, const AttentionWeights& w, ConstView n_TD, const AttentionSaved& s, View y_TD);
/// Writes:   dn_TD overwritten, dw accumulated.
void attention_block_backward(const ModelContext& c, const AttentionWeights& w, ConstView n_TD, const AttentionSaved& s, ConstView dy_TD, View dn_TD,
                              const AttentionWeights& dw);

}  // namespace optimus
