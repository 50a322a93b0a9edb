#include "optimus/model/weights.hpp"

#include <fmt/format.h>

namespace optimus {
namespace {

void check_views(const ModelConfig& config, std::string_view what, DType dtype, std::span<const View> views) {
  const std::vector<ParamSpec> specs = parameter_specs(config);
  if (views.size() != specs.size()) throw ShapeError(fmt::format("[model] {} {}s were given, the model has {} parameters", views.size(), what, specs.size()));
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (views[i].shape() == specs[i].shape && views[i].dtype() == dtype) continue;
    throw ShapeError(fmt::format("[model] the {} of {} is {} {}, it should be {} {}", what, specs[i].name, dtype_name(views[i].dtype()), views[i].shape().str(),
                                 dtype_name(dtype), specs[i].shape.str()));
  }
}

}  // namespace

ModelWeights bind_weights(const ModelConfig& config, std::string_view what, DType dtype, std::span<const View> views) {
  check_views(config, what, dtype, views);
  std::size_t at = 0;
  const auto next = [&] { return views[at++]; };
  const auto gain = [&] { return config.is_moe ? next() : View{}; };
  ModelWeights w;
  w.embedding_VD = next();
  w.layers.resize(static_cast<std::size_t>(config.num_hidden_layers));
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
  w.head.final_norm_D = gain();
  w.head.w_head_VD = config.tie_word_embeddings ? w.embedding_VD : next();
  return w;
}

}  // namespace optimus
