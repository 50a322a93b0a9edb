#include "optimus/model/layer.hpp"

#include "optimus/ops/misc.hpp"

namespace optimus {
namespace {

void allocate_kept_feed_forward(const LayerContext& lc, LayerSaved& s) {
  if (lc.moe != nullptr) s.moe.experts = lc.experts->allocate(*lc.moe, lc.c.rows());
  else s.mlp = allocate_mlp(lc.c);
}

/// Memory among the temporaries.
void allocate_feed_forward(const LayerContext& lc, LayerSaved& s) {
  if (lc.moe == nullptr) {
    s.mlp = allocate_mlp(lc.c.temporary());
    return;
  }
  MoeContext moe = *lc.moe;
  moe.kept = &moe.arena;
  s.moe.experts = lc.experts->allocate(moe, lc.c.rows());
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
  if (recompute.moe) allocate_feed_forward(lc, s);
}

/// Gradient of h from that of y: d_TD becomes dh.
void feed_forward_backward(const LayerContext& lc, const LayerWeights& w, LayerSaved& s, const RoutingLossGradient& losses, View d_TD, const LayerWeights& dw) {
  Scratch scratch(lc.c.arena);
  const RecomputeConfig& recompute = lc.c.options.recompute;
  if (recompute.norm) {
    s.n2 = allocate_norm(lc.c.temporary());
    norm_forward(lc.c, w.post_attention_norm_D, s.h_TD, s.n2);
  }
  if (recompute.moe) {
    allocate_feed_forward(lc, s);
    if (lc.moe != nullptr) lc.experts->forward(*lc.moe, w.moe.experts, s.n2.y_TD, s.moe.routing, s.moe.experts, {});
    else mlp_forward(lc.c, w.mlp, s.n2.y_TD, s.mlp, {});
  }
  const View dn_TD = scratch.like(d_TD);
  if (lc.moe != nullptr) moe_backward(*lc.moe, *lc.experts, w.moe, s.n2.y_TD, s.moe, {.dy_TD = d_TD, .losses = losses, .dx_TD = dn_TD, .dw = dw.moe});
  else mlp_backward(lc.c, w.mlp, s.n2.y_TD, s.mlp, d_TD, dn_TD, dw.mlp);
  norm_backward(lc.c, w.post_attention_norm_D, s.h_TD, s.n2, dn_TD, d_TD, dw.post_attention_norm_D);
}

/// Gradient of x from that of h.
void attention_part_backward(const LayerContext& lc, const LayerWeights& w, LayerSaved& s, View d_TD, const LayerWeights& dw) {
  Scratch scratch(lc.c.arena);
  const RecomputeConfig& recompute = lc.c.options.recompute;
  if (recompute.norm) {
    s.n1 = allocate_norm(lc.c.temporary());
    norm_forward(lc.c, w.input_norm_D, s.x_TD, s.n1);
  }
  if (recompute.attention) {
    s.attention = allocate_attention(lc.c.temporary());
    attention_block_forward(lc.c, w.attention, s.n1.y_TD, s.attention, {});
  }
  const View dn_TD = scratch.like(d_TD);
  attention_block_backward(lc.c, w.attention, s.n1.y_TD, s.attention, d_TD, dn_TD, dw.attention);
  norm_backward(lc.c, w.input_norm_D, s.x_TD, s.n1, dn_TD, d_TD, dw.input_norm_D);
}

}  // namespace

LayerSaved allocate_layer(const LayerContext& lc, const RoutingStatistics& statistics) {
  const RecomputeConfig& recompute = lc.c.options.recompute;
  LayerSaved s;
  s.h_TD = lc.c.keep_local_rows(lc.c.model().hidden_size);
  if (lc.moe != nullptr) s.moe.routing = allocate_routing(*lc.moe, lc.c.rows(), statistics);
  if (!recompute.norm) {
    s.n1 = allocate_norm(lc.c);
    s.n2 = allocate_norm(lc.c);
  }
  if (!recompute.attention) s.attention = allocate_attention(lc.c);
  if (!recompute.moe) allocate_kept_feed_forward(lc, s);
  return s;
}

void feed_forward_half(const LayerContext& lc, const LayerWeights& w, const LayerSaved& s, View y_TD, const LogitsProbe& probe) {
  norm_forward(lc.c, w.post_attention_norm_D, s.h_TD, s.n2);
  if (lc.moe != nullptr) moe_forward(*lc.moe, *lc.experts, w.moe, s.n2.y_TD, s.moe, y_TD, probe);
  else mlp_forward(lc.c, w.mlp, s.n2.y_TD, s.mlp, y_TD);
  ops::add(lc.c.backend, s.h_TD, y_TD, y_TD);
}

void layer_forward(const LayerContext& lc, const LayerWeights& w, View x_TD, View y_TD, LayerSaved& s, const LogitsProbe& probe) {
  const ModelContext& c = lc.c;
  Scratch scratch(c.arena);
  allocate_dropped(lc, s);
  s.x_TD = x_TD;

  norm_forward(c, w.input_norm_D, x_TD, s.n1);
  attention_block_forward(c, w.attention, s.n1.y_TD, s.attention, s.h_TD);
  ops::add(c.backend, x_TD, s.h_TD, s.h_TD);
  feed_forward_half(lc, w, s, y_TD, probe);
}

void layer_backward(const LayerContext& lc, const LayerWeights& w, LayerSaved& s, const RoutingLossGradient& losses, View d_TD, const LayerWeights& dw) {
  feed_forward_backward(lc, w, s, losses, d_TD, dw);
  attention_part_backward(lc, w, s, d_TD, dw);
}

}  // namespace optimus
