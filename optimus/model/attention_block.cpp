#include "optimus/model/attention_block.hpp"

#include "optimus/model/tensor_parallel.hpp"
#include "optimus/ops/attention.hpp"
#include "optimus/ops/linear.hpp"
#include "optimus/ops/norm.hpp"

namespace optimus {
namespace {

/// What differs between the projections of queries, keys and values.
struct Projection {
  ConstView w_OD, gain_O;  ///< no gain: no norm
  Index width;             ///< of the whole projection, on all ranks
  bool is_counted;         ///< this rank's part of it is nobody else's, or it is the one that counts
  bool is_rotated;
};

Projection queries(const ModelContext& c, const AttentionWeights& w) {
  return {.w_OD = w.w_q_QD, .gain_O = w.q_norm_Q, .width = c.model().hidden_size, .is_counted = true, .is_rotated = true};
}
Projection keys(const ModelContext& c, const AttentionWeights& w) {
  return {.w_OD = w.w_k_GD, .gain_O = w.k_norm_G, .width = c.model().kv_size(), .is_counted = c.owns_kv(), .is_rotated = true};
}
Projection values(const ModelContext& c, const AttentionWeights& w) {
  return {.w_OD = w.w_v_GD, .gain_O = {}, .width = c.model().kv_size(), .is_counted = c.owns_kv(), .is_rotated = false};
}

/// The norm over the whole projection, of which this rank has a part.
void norm(const ModelContext& c, const Projection& p, const ProjectionSaved& s) {
  if (c.tp == nullptr) return ops::rms_norm_forward(c.backend, s.raw, p.gain_O, c.model().norm_eps, s.out, s.rstd_T);
  ops::row_sum_squares(c.backend, s.raw, s.rstd_T);
  sum_parts(c, s.rstd_T, p.is_counted);
  ops::rms_norm_rstd(c.backend, s.rstd_T, p.width, c.model().norm_eps, s.rstd_T);
  ops::rms_norm_apply(c.backend, s.raw, p.gain_O, s.rstd_T, s.out);
}

/// In place: `d` is the gradient of the norm's output, then of its input.
void norm_backward(const ModelContext& c, const Projection& p, const ProjectionSaved& s, View d, View dgain_O) {
  if (c.tp == nullptr) return ops::rms_norm_backward(c.backend, d, s.raw, p.gain_O, s.rstd_T, d, Write::kOverwrite, dgain_O);
  Scratch scratch(c.arena);
  const View dots_T = scratch.like(s.rstd_T);
  const NormKernels::RmsNormPart part{.dy_TD = d, .x_TD = s.raw, .gain_D = p.gain_O, .rstd_T = s.rstd_T, .width = p.width};
  ops::rms_norm_dots(c.backend, part, dots_T);
  sum_parts(c, dots_T, p.is_counted);
  ops::rms_norm_backward_apply(c.backend, part, dots_T, d, Write::kOverwrite, dgain_O);
}

/// What the norm made, once more.
View norm_again(const ModelContext& c, Scratch& scratch, const Projection& p, const ProjectionSaved& s) {
  const View normed = scratch.like(s.raw);
  if (c.tp == nullptr) ops::rms_norm_forward(c.backend, s.raw, p.gain_O, c.model().norm_eps, normed, scratch.like(s.rstd_T));
  else ops::rms_norm_apply(c.backend, s.raw, p.gain_O, s.rstd_T, normed);
  return normed;
}

/// rope(clip(norm(W n)))
void project(const ModelContext& c, const Projection& p, ConstView n_TD, const ProjectionSaved& s) {
  const auto& clip = c.model().clip_qkv;
  ops::linear_forward(c.backend, n_TD, p.w_OD, s.raw);
  c.poll();
  if (p.gain_O.exists()) norm(c, p, s);
  if (clip) ops::clamp_forward(c.backend, p.gain_O.exists() ? s.out : s.raw, *clip, s.out);
  if (p.is_rotated) ops::rope(c.backend, s.out, c.positions_T, c.cos_PA, c.sin_PA, c.model().head_size(), false);
}

/// The same from bottom to top. `d` is the gradient of the projection's result, used up.
void project_backward(const ModelContext& c, const Projection& p, ConstView n_TD, const ProjectionSaved& s, View d, View dw_OD, View dgain_O) {
  const auto& clip = c.model().clip_qkv;
  if (p.is_rotated) ops::rope(c.backend, d, c.positions_T, c.cos_PA, c.sin_PA, c.model().head_size(), true);
  if (clip) {
    // Which elements were cut shows only before the cut.
    Scratch scratch(c.arena);
    ops::clamp_backward(c.backend, d, p.gain_O.exists() ? norm_again(c, scratch, p, s) : s.raw, *clip, d);
  }
  if (p.gain_O.exists()) norm_backward(c, p, s, d, dgain_O);
  c.weight_gradient({.dy = d, .x = n_TD, .dw = dw_OD, .segments_e = {}});
  c.poll();
}

/// dn += d W. Of heads that several ranks hold, each does a part of the rows: the sum over the ranks has all of them once.
void kv_backward_input(const ModelContext& c, ConstView d_TG, ConstView w_GD, View dn_TD) {
  IndexRange own{.begin = 0, .count = c.rows()};
  if (c.kv_sharers != nullptr) own = uneven_part(c.rows(), c.kv_sharers->size(), c.kv_sharers->rank());
  const Index end = own.begin + own.count;
  c.poll();
  ops::linear_backward_input(c.backend, d_TG.rows(own.begin, end), w_GD, dn_TD.rows(own.begin, end), Write::kAccumulate);
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
  project(c, queries(c, w), n_TD, s.q);
  project(c, keys(c, w), n_TD, s.k);
  project(c, values(c, w), n_TD, s.v);
}

void attention_block_forward(const ModelContext& c, const AttentionWeights& w, ConstView n_TD, const AttentionSaved& s, View y_TD) {
  attention_project(c, w, n_TD, s);
  ops::attention_forward(c.backend, attention_shape(c), s.q.out, s.k.out, s.v.out, {}, s.o_TQ, s.lse_BHS);
  c.poll();
  if (y_TD.exists()) ops::linear_forward(c.backend, s.o_TQ, w.w_o_DQ, y_TD);
}

void attention_block_backward(const ModelContext& c, const AttentionWeights& w, ConstView n_TD, const AttentionSaved& s, ConstView dy_TD, View dn_TD,
                              const AttentionWeights& dw) {
  Scratch scratch(c.arena);
  const View do_TQ = scratch.like(s.o_TQ), dq_TQ = c.operand_like(s.q.out), dk_TG = c.operand_like(s.k.out), dv_TG = c.operand_like(s.v.out);

  c.weight_gradient({.dy = dy_TD, .x = s.o_TQ, .dw = dw.w_o_DQ, .segments_e = {}});
  c.poll();
  ops::linear_backward_input(c.backend, dy_TD, w.w_o_DQ, do_TQ, Write::kOverwrite);
  c.poll();
  ops::attention_backward(c.backend, attention_shape(c), do_TQ, {s.q.out, s.k.out, s.v.out, {}, s.o_TQ, s.lse_BHS}, {dq_TQ, dk_TG, dv_TG});
  c.poll();
  if (c.kv_sharers != nullptr) {
    // Each has the queries of other heads: together they make the gradient of the one head that all hold.
    c.kv_sharers->all_reduce(dk_TG, Reduce::kSum);
    c.kv_sharers->all_reduce(dv_TG, Reduce::kSum);
  }
  project_backward(c, queries(c, w), n_TD, s.q, dq_TQ, dw.w_q_QD, dw.q_norm_Q);
  project_backward(c, keys(c, w), n_TD, s.k, dk_TG, dw.w_k_GD, dw.k_norm_G);
  project_backward(c, values(c, w), n_TD, s.v, dv_TG, dw.w_v_GD, {});
  ops::linear_backward_input(c.backend, dq_TQ, w.w_q_QD, dn_TD, Write::kOverwrite);
  kv_backward_input(c, dk_TG, w.w_k_GD, dn_TD);
  kv_backward_input(c, dv_TG, w.w_v_GD, dn_TD);
}

}  // namespace optimus
