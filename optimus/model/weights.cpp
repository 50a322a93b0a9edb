#include "optimus/model/weights.hpp"

#include <fmt/format.h>

#include "optimus/base/counted.hpp"

namespace optimus {
namespace {

void check_views(const TransformerOptions& options, std::string_view what, DType dtype, std::span<const View> views) {
  const std::vector<ParamSpec> specs = parameter_specs(options.model, options.layer_range());
  if (views.size() != specs.size())
    throw ShapeError(fmt::format("[model] there are {}, the model has {}", counted(views.size(), what), counted(specs.size(), "parameter")));
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const Shape shape = local_box(specs[i], options.split).shape;
    if (views[i].shape() == shape && views[i].dtype() == dtype) continue;
    throw ShapeError(fmt::format("[model] the {} of {} is {} {}, it should be {} {}", what, specs[i].name, dtype_name(views[i].dtype()), views[i].shape().str(),
                                 dtype_name(dtype), shape.str()));
  }
}

}  // namespace

ModelWeights bind_weights(const TransformerOptions& options, std::string_view what, DType dtype, std::span<const View> views) {
  const ModelConfig& config = options.model;
  const LayerRange range = options.layer_range();
  check_views(options, what, dtype, views);
  std::size_t at = 0;
  const auto next = [&] { return views[at++]; };
  const auto gain = [&] { return config.is_moe ? next() : View{}; };
  ModelWeights w;
  if (range.has_embedding) w.embedding_VD = next();
  w.layers.resize(static_cast<std::size_t>(range.count()));
  for (LayerWeights& layer : w.layers) {
    layer.input_norm_D = gain();
    layer.attention.w_q_QD = next();
    layer.attention.w_k_GD = next();
    layer.attention.w_v_GD = next();
    layer.attention.w_o_DQ = next();
    layer.attention.q_norm_Q = gain();
    layer.attention.k_norm_G = gain();
    layer.post_attention_norm_D = gain();
    if (config.is_moe) {
      layer.moe.w_router_ED = next();
      layer.moe.experts.w_gate_eFD = next();
      layer.moe.experts.w_up_eFD = next();
      layer.moe.experts.w_down_eDF = next();
    } else {
      layer.mlp.w_gate_FD = next();
      layer.mlp.w_up_FD = next();
      layer.mlp.w_down_DF = next();
    }
  }
  if (!range.has_head) return w;
  w.head.final_norm_D = gain();
  w.head.w_head_VD = config.tie_word_embeddings && range.has_embedding ? w.embedding_VD : next();
  return w;
}

}  // namespace optimus
