#include "optimus/model/attention_block.hpp"

#include "optimus/ops/attention.hpp"
#include "optimus/ops/linear.hpp"
#include "optimus/ops/norm.hpp"

namespace optimus {
namespace {

/// What differs between the projections of queries, keys and values.
struct Projection {
  ConstView w_OD, gain_O;  ///< no gain: no norm
  bool is_rotated = false;
};

/// rope(clip(norm(W n)))
void project(const ModelContext& c, const Projection& p, ConstView n_TD, const ProjectionSaved& s) {
  const auto& clip = c.model().clip_qkv;
  ops::linear_forward(c.backend, n_TD, p.w_OD, s.raw);
  if (p.gain_O.exists()) ops::rms_norm_forward(c.backend, s.raw, p.gain_O, c.model().norm_eps, s.out, s.rstd_T);
  if (clip) ops::clamp_forward(c.backend, p.gain_O.exists() ? s.out : s.raw, *clip, s.out);
  if (p.is_rotated) ops::rope(c.backend, s.out, c.positions_T, c.cos_PA, c.sin_PA, c.model().head_size(), false);
}

/// The same from bottom to top. `d` is the gradient of the projection's result, used up.
void project_backward(const ModelContext& c, const Projection& p, ConstView n_TD, const ProjectionSaved& s, View d, View dw_OD, View dgain_O) {
  const auto& clip = c.model().clip_qkv;
  if (p.is_rotated) ops::rope(c.backend, d, c.positions_T, c.cos_PA, c.sin_PA, c.model().head_size(), true);
  if (clip && p.gain_O.exists()) {
    // Which elements were cut shows only before the cut: the norm is made once more.
    Scratch scratch(c.arena);
    const View normed = scratch.like(s.raw), rstd_T = scratch.like(s.rstd_T);
    ops::rms_norm_forward(c.backend, s.raw, p.gain_O, c.model().norm_eps, normed, rstd_T);
    ops::clamp_backward(c.backend, d, normed, *clip, d);
  } else if (clip) {
    ops::clamp_backward(c.backend, d, s.raw, *clip, d);
  }
  if (p.gain_O.exists()) ops::rms_norm_backward(c.backend, d, s.raw, p.gain_O, s.rstd_T, d, Write::kOverwrite, dgain_O);
  ops::linear_backward_weight(c.backend, d, n_TD, dw_OD);
}

ProjectionSaved allocate_projection(const ModelContext& c, Index width, bool has_norm) {
  ProjectionSaved s{.raw = c.keep_rows(width), .rstd_T = {}, .out = {}};
  s.out = has_norm || c.model().clip_qkv ? c.keep_rows(width) : s.raw;
  if (has_norm) s.rstd_T = c.keep(c.wide, {c.rows()});
  return s;
}

AttentionShape attention_shape(const ModelContext& c) {
  const ModelConfig& model = c.model();
  return {.batch = c.sequences,
          .queries = c.sequence_length,
          .keys = c.sequence_length,
          .heads = c.heads(),
          .kv_heads = c.kv_heads(),
          .head_size = model.head_size()};
}

}  // namespace

AttentionSaved allocate_attention(const ModelContext& c) {
  const ModelConfig& model = c.model();
  return {.q = allocate_projection(c, c.q_size(), model.is_moe),
          .k = allocate_projection(c, c.kv_size(), model.is_moe),
          .v = allocate_projection(c, c.kv_size(), false),
          .o_TQ = c.keep_rows(c.q_size()),
          .lse_BHS = c.keep(c.wide, {c.sequences, c.heads(), c.sequence_length})};
}

void attention_project(const ModelContext& c, const AttentionWeights& w, ConstView n_TD, const AttentionSaved& s) {
  project(c, {w.w_q_QD, w.q_norm_Q, true}, n_TD, s.q);
  project(c, {w.w_k_GD, w.k_norm_G, true}, n_TD, s.k);
  project(c, {w.w_v_GD, {}, false}, n_TD, s.v);
}

void attention_block_forward(const ModelContext& c, const AttentionWeights& w, ConstView n_TD, const AttentionSaved& s, View y_TD) {
  attention_project(c, w, n_TD, s);
  ops::attention_forward(c.backend, attention_shape(c), s.q.out, s.k.out, s.v.out, {}, s.o_TQ, s.lse_BHS);
  if (y_TD.exists()) ops::linear_forward(c.backend, s.o_TQ, w.w_o_DQ, y_TD);
}

void attention_block_backward(const ModelContext& c, const AttentionWeights& w, ConstView n_TD, const AttentionSaved& s, ConstView dy_TD, View dn_TD,
                              const AttentionWeights& dw) {
  Scratch scratch(c.arena);
  const View do_TQ = scratch.like(s.o_TQ), dq_TQ = scratch.like(s.q.out), dk_TG = scratch.like(s.k.out), dv_TG = scratch.like(s.v.out);

  ops::linear_backward_weight(c.backend, dy_TD, s.o_TQ, dw.w_o_DQ);
  ops::linear_backward_input(c.backend, dy_TD, w.w_o_DQ, do_TQ, Write::kOverwrite);
  ops::attention_backward(c.backend, attention_shape(c), do_TQ, {s.q.out, s.k.out, s.v.out, {}, s.o_TQ, s.lse_BHS}, {dq_TQ, dk_TG, dv_TG});
  project_backward(c, {w.w_q_QD, w.q_norm_Q, true}, n_TD, s.q, dq_TQ, dw.w_q_QD, dw.q_norm_Q);
  project_backward(c, {w.w_k_GD, w.k_norm_G, true}, n_TD, s.k, dk_TG, dw.w_k_GD, dw.k_norm_G);
  project_backward(c, {w.w_v_GD, {}, false}, n_TD, s.v, dv_TG, dw.w_v_GD, {});
  ops::linear_backward_input(c.backend, dq_TQ, w.w_q_QD, dn_TD, Write::kOverwrite);
  ops::linear_backward_input(c.backend, dk_TG, w.w_k_GD, dn_TD, Write::kAccumulate);
  ops::linear_backward_input(c.backend, dv_TG, w.w_v_GD, dn_TD, Write::kAccumulate);
}

}  // namespace optimus
