#include "optimus/model/attention_block.hpp"

#include "optimus/ops/attention.hpp"
#include "optimus/ops/linear.hpp"
#include "optimus/ops/misc.hpp"
#include "optimus/ops/norm.hpp"

namespace optimus {
namespace {

/// One of the three projections: what differs between them.
struct Projection {
  ConstView w_OD, gain_O;  ///< no gain: no norm
  const ProjectionSaved& saved;
  Index width;  ///< of the whole projection, on all ranks
  bool is_rotated;
};

Projection queries(const ModelContext& c, const AttentionWeights& w, const AttentionSaved& s) {
  return {.w_OD = w.w_q_QD, .gain_O = w.q_norm_Q, .saved = s.q, .width = c.model().hidden_size, .is_rotated = true};
}
Projection keys(const ModelContext& c, const AttentionWeights& w, const AttentionSaved& s) {
  return {.w_OD = w.w_k_GD, .gain_O = w.k_norm_G, .saved = s.k, .width = c.model().kv_size(), .is_rotated = true};
}
Projection values(const ModelContext& c, const AttentionWeights& w, const AttentionSaved& s) {
  return {.w_OD = w.w_v_GD, .gain_O = {}, .saved = s.v, .width = c.model().kv_size(), .is_rotated = false};
}

void multiply(const ModelContext& c, const Projection& p, ConstView n_TD) {
  ops::linear_forward(c.backend, n_TD, p.w_OD, p.saved.raw);
  c.poll();
}

/// Of the rows of queries and of keys each rank has a part: their sums are added up. A head that several ranks have counts once.
void sum_over_heads(const ModelContext& c, View sums_2T) {
  if (!c.owns_kv()) ops::fill_zero(c.backend, sums_2T[1]);
  c.tp->all_reduce(sums_2T, Reduce::kSum);
}

/// The norms over the whole projections.
void norms(const ModelContext& c, const Projection& q, const Projection& k, View rstd_2T) {
  for (const Projection* p : {&q, &k}) {
    const ProjectionSaved& s = p->saved;
    if (c.tp == nullptr) ops::rms_norm_forward(c.backend, s.raw, p->gain_O, c.model().norm_eps, s.out, s.rstd_T);
    else ops::row_sum_squares(c.backend, s.raw, s.rstd_T);
  }
  if (c.tp == nullptr) return;
  sum_over_heads(c, rstd_2T);
  for (const Projection* p : {&q, &k}) {
    const ProjectionSaved& s = p->saved;
    ops::rms_norm_rstd(c.backend, s.rstd_T, p->width, c.model().norm_eps, s.rstd_T);
    ops::rms_norm_apply(c.backend, s.raw, p->gain_O, s.rstd_T, s.out);
  }
}

/// A projection in backward.
struct ProjectionGradient {
  Projection p;
  View d;  ///< of what the steps have come to, in place
  View dw_OD, dgain_O;
};

/// In place: the gradients of the norms' outputs become those of their inputs.
void norms_backward(const ModelContext& c, const ProjectionGradient& q, const ProjectionGradient& k, ConstView rstd_2T) {
  Scratch scratch(c.arena);
  const View dots_2T = c.tp == nullptr ? View{} : scratch.like(rstd_2T);
  const auto part = [](const ProjectionGradient& g) {
    return NormKernels::RmsNormPart{.dy_TD = g.d, .x_TD = g.p.saved.raw, .gain_D = g.p.gain_O, .rstd_T = g.p.saved.rstd_T, .width = g.p.width};
  };
  if (c.tp == nullptr) {
    for (const ProjectionGradient* g : {&q, &k})
      ops::rms_norm_backward(c.backend, g->d, g->p.saved.raw, g->p.gain_O, g->p.saved.rstd_T, g->d, Write::kOverwrite, g->dgain_O);
    return;
  }
  ops::rms_norm_dots(c.backend, part(q), dots_2T[0]);
  ops::rms_norm_dots(c.backend, part(k), dots_2T[1]);
  sum_over_heads(c, dots_2T);
  ops::rms_norm_backward_apply(c.backend, part(q), dots_2T[0], q.d, Write::kOverwrite, q.dgain_O);
  ops::rms_norm_backward_apply(c.backend, part(k), dots_2T[1], k.d, Write::kOverwrite, k.dgain_O);
}

/// What the norm made, once more.
View norm_again(const ModelContext& c, Scratch& scratch, const Projection& p) {
  const ProjectionSaved& s = p.saved;
  const View normed = scratch.like(s.raw);
  if (c.tp == nullptr) ops::rms_norm_forward(c.backend, s.raw, p.gain_O, c.model().norm_eps, normed, scratch.like(s.rstd_T));
  else ops::rms_norm_apply(c.backend, s.raw, p.gain_O, s.rstd_T, normed);
  return normed;
}

void clip_and_rotate(const ModelContext& c, const Projection& p) {
  const auto& clip = c.model().clip_qkv;
  if (clip) ops::clamp_forward(c.backend, p.gain_O.exists() ? p.saved.out : p.saved.raw, *clip, p.saved.out);
  if (p.is_rotated) ops::rope(c.backend, p.saved.out, c.positions_T, c.cos_PA, c.sin_PA, c.model().head_size(), false);
}

/// In place.
void clip_and_rotate_backward(const ModelContext& c, const ProjectionGradient& g) {
  const auto& clip = c.model().clip_qkv;
  if (g.p.is_rotated) ops::rope(c.backend, g.d, c.positions_T, c.cos_PA, c.sin_PA, c.model().head_size(), true);
  if (!clip) return;
  // Which elements were cut shows only before the cut.
  Scratch scratch(c.arena);
  ops::clamp_backward(c.backend, g.d, g.p.gain_O.exists() ? norm_again(c, scratch, g.p) : g.p.saved.raw, *clip, g.d);
}

/// dn += d W. Of heads that several ranks hold, each does a part of the rows: the sum over the ranks has all of them once.
void kv_backward_input(const ModelContext& c, ConstView d_TG, ConstView w_GD, View dn_TD) {
  IndexRange own{.begin = 0, .count = c.rows()};
  if (c.kv_sharers != nullptr) own = uneven_part(c.rows(), c.kv_sharers->size(), c.kv_sharers->rank());
  const Index end = own.begin + own.count;
  c.poll();
  ops::linear_backward_input(c.backend, d_TG.rows(own.begin, end), w_GD, dn_TD.rows(own.begin, end), Write::kAccumulate);
}

ProjectionSaved allocate_projection(const ModelContext& c, Index width, View rstd_T) {
  ProjectionSaved s{.raw = c.keep_rows(width), .rstd_T = rstd_T, .out = {}};
  s.out = rstd_T.exists() || c.model().clip_qkv ? c.keep_rows(width) : s.raw;
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
  const View rstd_2T = c.model().is_moe ? c.keep(c.wide, {2, c.rows()}) : View{};
  return {.q = allocate_projection(c, c.q_size(), rstd_2T.exists() ? rstd_2T[0] : View{}),
          .k = allocate_projection(c, c.kv_size(), rstd_2T.exists() ? rstd_2T[1] : View{}),
          .v = allocate_projection(c, c.kv_size(), {}),
          .rstd_2T = rstd_2T,
          .o_TQ = c.keep_rows(c.q_size()),
          .lse_BHS = c.keep(c.wide, {c.sequences, c.heads(), c.sequence_length})};
}

void attention_project(const ModelContext& c, const AttentionWeights& w, ConstView n_TD, const AttentionSaved& s) {
  const Projection q = queries(c, w, s), k = keys(c, w, s), v = values(c, w, s);
  for (const Projection* p : {&q, &k, &v}) multiply(c, *p, n_TD);
  if (s.rstd_2T.exists()) norms(c, q, k, s.rstd_2T);
  for (const Projection* p : {&q, &k, &v}) clip_and_rotate(c, *p);
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
  const ProjectionGradient q{.p = queries(c, w, s), .d = dq_TQ, .dw_OD = dw.w_q_QD, .dgain_O = dw.q_norm_Q};
  const ProjectionGradient k{.p = keys(c, w, s), .d = dk_TG, .dw_OD = dw.w_k_GD, .dgain_O = dw.k_norm_G};
  const ProjectionGradient v{.p = values(c, w, s), .d = dv_TG, .dw_OD = dw.w_v_GD, .dgain_O = {}};
  for (const ProjectionGradient* g : {&q, &k, &v}) clip_and_rotate_backward(c, *g);
  if (s.rstd_2T.exists()) norms_backward(c, q, k, s.rstd_2T);
  for (const ProjectionGradient* g : {&q, &k, &v}) {
    c.weight_gradient({.dy = g->d, .x = n_TD, .dw = g->dw_OD, .segments_e = {}});
    c.poll();
  }
  ops::linear_backward_input(c.backend, dq_TQ, w.w_q_QD, dn_TD, Write::kOverwrite);
  kv_backward_input(c, dk_TG, w.w_k_GD, dn_TD);
  kv_backward_input(c, dv_TG, w.w_v_GD, dn_TD);
}

}  // namespace optimus
