#include "optimus/model/layer.hpp"

#include "optimus/model/tensor_parallel.hpp"
#include "optimus/ops/misc.hpp"

namespace optimus {
namespace {

/// Memory where `c` keeps things.
void allocate_feed_forward(const LayerContext& lc, const ModelContext& c, LayerSaved& s) {
  if (lc.moe == nullptr) {
    s.mlp = allocate_mlp(c);
    return;
  }
  MoeContext moe = *lc.moe;
  moe.kept = c.kept;
  s.moe.experts = lc.experts->allocate(moe, c.rows());
}

/// Memory of what forward makes and then lets go.
void allocate_dropped(const LayerContext& lc, LayerSaved& s) {
  const RecomputeConfig& recompute = lc.c.options.recompute;
  const ModelContext c = lc.c.temporary();
  if (recompute.norm) {
    s.n1 = allocate_norm(c);
    s.n2 = allocate_norm(c);
  }
  if (recompute.attention) s.attention = allocate_attention(c);
  if (recompute.moe) allocate_feed_forward(lc, c, s);
}

/// h = x + attention(norm(x))
void attention_half(const ModelContext& c, const LayerWeights& w, const LayerSaved& s) {
  Scratch scratch(c.arena);
  norm_forward(c, w.input_norm_D, s.x_lD, s.n1);
  const ConstView n_TD = gather_rows(c, s.n1.y_lD);
  const View y_TD = partial_rows(c, s.h_lD);
  attention_block_forward(c, w.attention, n_TD, s.attention, y_TD);
  sum_rows(c, y_TD, s.h_lD);
  ops::add(c.backend, s.x_lD, s.h_lD, s.h_lD);
}

/// Gradient of h from that of y: d_lD becomes dh.
void feed_forward_backward(const LayerContext& lc, const LayerWeights& w, LayerSaved& s, const RoutingLossGradient& losses, View d_lD, const LayerWeights& dw) {
  Scratch scratch(lc.c.arena);
  const RecomputeConfig& recompute = lc.c.options.recompute;
  if (recompute.norm) {
    s.n2 = allocate_norm(lc.c.recomputation());
    norm_forward(lc.c, w.post_attention_norm_D, s.h_lD, s.n2);
  }
  const ConstView n_TD = gather_rows(lc.c, s.n2.y_lD);
  if (recompute.moe) {
    allocate_feed_forward(lc, lc.c.recomputation(), s);
    if (lc.moe != nullptr) lc.experts->forward(*lc.moe, w.moe.experts, n_TD, s.moe.routing, s.moe.experts, {});
    else mlp_forward(lc.c, w.mlp, n_TD, s.mlp, {});
  }
  const ConstView dy_TD = gather_changing_rows(lc.c, d_lD);
  const View dn_lD = scratch.like(d_lD), dn_TD = partial_rows(lc.c, dn_lD);
  if (lc.moe != nullptr) moe_backward(*lc.moe, *lc.experts, w.moe, n_TD, s.moe, {.dy_TD = dy_TD, .losses = losses, .dx_TD = dn_TD, .dw = dw.moe});
  else mlp_backward(lc.c, w.mlp, n_TD, s.mlp, dy_TD, dn_TD, dw.mlp);
  sum_rows(lc.c, dn_TD, dn_lD);
  norm_backward(lc.c, w.post_attention_norm_D, s.h_lD, s.n2, dn_lD, d_lD, dw.post_attention_norm_D);
}

/// Gradient of x from that of h.
void attention_part_backward(const LayerContext& lc, const LayerWeights& w, LayerSaved& s, View d_lD, const LayerWeights& dw) {
  Scratch scratch(lc.c.arena);
  const RecomputeConfig& recompute = lc.c.options.recompute;
  if (recompute.norm) {
    s.n1 = allocate_norm(lc.c.recomputation());
    norm_forward(lc.c, w.input_norm_D, s.x_lD, s.n1);
  }
  const ConstView n_TD = gather_rows(lc.c, s.n1.y_lD);
  if (recompute.attention) {
    s.attention = allocate_attention(lc.c.recomputation());
    attention_block_forward(lc.c, w.attention, n_TD, s.attention, {});
  }
  const ConstView dy_TD = gather_changing_rows(lc.c, d_lD);
  const View dn_lD = scratch.like(d_lD), dn_TD = partial_rows(lc.c, dn_lD);
  attention_block_backward(lc.c, w.attention, n_TD, s.attention, dy_TD, dn_TD, dw.attention);
  sum_rows(lc.c, dn_TD, dn_lD);
  norm_backward(lc.c, w.input_norm_D, s.x_lD, s.n1, dn_lD, d_lD, dw.input_norm_D);
}

}  // namespace

LayerSaved allocate_layer(const LayerContext& lc, const RoutingStatistics& statistics) {
  const RecomputeConfig& recompute = lc.c.options.recompute;
  LayerSaved s;
  s.h_lD = lc.c.keep_local_rows(lc.c.model().hidden_size);
  if (lc.moe != nullptr) s.moe.routing = allocate_routing(*lc.moe, lc.c.rows(), statistics);
  if (!recompute.norm) {
    s.n1 = allocate_norm(lc.c);
    s.n2 = allocate_norm(lc.c);
  }
  if (!recompute.attention) s.attention = allocate_attention(lc.c);
  if (!recompute.moe) allocate_feed_forward(lc, lc.c, s);
  return s;
}

void feed_forward_half(const LayerContext& lc, const LayerWeights& w, const LayerSaved& s, View y_lD, const LogitsProbe& probe) {
  const ModelContext& c = lc.c;
  Scratch scratch(c.arena);
  norm_forward(c, w.post_attention_norm_D, s.h_lD, s.n2);
  const ConstView n_TD = gather_rows(c, s.n2.y_lD);
  const View y_TD = partial_rows(c, y_lD);
  if (lc.moe != nullptr) moe_forward(*lc.moe, *lc.experts, w.moe, n_TD, s.moe, y_TD, probe);
  else mlp_forward(c, w.mlp, n_TD, s.mlp, y_TD);
  sum_rows(c, y_TD, y_lD);
  ops::add(c.backend, s.h_lD, y_lD, y_lD);
}

void layer_forward(const LayerContext& lc, const LayerWeights& w, View x_lD, View y_lD, LayerSaved& s, const LogitsProbe& probe) {
  Scratch scratch(lc.c.arena);
  allocate_dropped(lc, s);
  s.x_lD = x_lD;
  attention_half(lc.c, w, s);
  feed_forward_half(lc, w, s, y_lD, probe);
}

void layer_backward(const LayerContext& lc, const LayerWeights& w, LayerSaved& s, const RoutingLossGradient& losses, View d_lD, const LayerWeights& dw) {
  feed_forward_backward(lc, w, s, losses, d_lD, dw);
  attention_part_backward(lc, w, s, d_lD, dw);
}

}  // namespace optimus
