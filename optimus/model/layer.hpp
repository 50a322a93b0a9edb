#pragma once
// One transformer block, the unit that recomputation and pipeline stages work with.
//
//   h = x + attention(norm(x));   y = h + feed_forward(norm(h)),   feed_forward a mixture of experts (OLMoE) or an MLP (OLMo)

#include "optimus/model/attention_block.hpp"
#include "optimus/model/mlp.hpp"
#include "optimus/model/moe/moe_layer.hpp"
#include "optimus/model/norm.hpp"

namespace optimus {

/// Weights, or their gradients. Of `moe` and `mlp` one is used; the gains do not exist in a dense model.
struct LayerWeights {
  View input_norm_D;
  AttentionWeights attention;
  View post_attention_norm_D;
  MoeWeights moe;
  MlpWeights mlp;
};

/// What backward needs. What RecomputeConfig names is not kept: its views are made anew, and filled, in backward.
struct LayerSaved {
  View x_lD, h_lD;
  NormSaved n1, n2;
  AttentionSaved attention;
  MoeSaved moe;
  MlpSaved mlp;
};

/// The parts of the model that every block shares.
struct LayerContext {
  const ModelContext& c;
  const MoeContext* moe;  ///< nullptr for a dense model
  const Experts* experts;
};

/// Memory for everything that is kept from forward to backward; of the routing's statistics there is memory already.
[[nodiscard]] LayerSaved allocate_layer(const LayerContext& lc, const RoutingStatistics& statistics);

/// y = h + feed_forward(norm(h)): the second half of the block. h_lD, n2 and moe or mlp of `s` have memory.
void feed_forward_half(const LayerContext& lc, const LayerWeights& w, const LayerSaved& s, View y_lD, const LogitsProbe& probe);

/// Writes y_lD and `s`, whose memory is allocate_layer()'s. `probe` is told the router's logits.
/// Collective: over tp and ep, as layer_backward().
void layer_forward(const LayerContext& lc, const LayerWeights& w, View x_lD, View y_lD, LayerSaved& s, const LogitsProbe& probe);

/// d_lD is the gradient of y on entry and of x on return; dw accumulated. A forward serves one backward.
void layer_backward(const LayerContext& lc, const LayerWeights& w, LayerSaved& s, const RoutingLossGradient& losses, View d_lD, const LayerWeights& dw);

}  // namespace optimus
