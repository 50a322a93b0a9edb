// The list of parameters, and what follows from it: counts and arithmetic.

#include <fmt/format.h>

#include "optimus/model/config.hpp"

namespace optimus {
namespace {

/// Appends the parameters of one model in forward order.
class SpecList {
 public:
  explicit SpecList(const ModelConfig& config) : config_(config) {}

  /// A Linear or Embedding; tp_dim 0 splits its outputs, 1 its inputs.
  ParamSpec& matrix(const std::string& name, Index layer, Index rows, Index columns, std::optional<int> tp_dim) {
    return specs_.emplace_back(ParamSpec{.name = name, .shape = {rows, columns}, .init_std = config_.initializer_range, .tp_dim = tp_dim, .layer = layer});
  }
  void experts(const std::string& name, Index layer, Index rows, Index columns, int tp_dim) {
    specs_.push_back({.name = name,
                      .shape = {config_.num_experts, rows, columns},
                      .init_std = config_.initializer_range,
                      .tp_dim = tp_dim,
                      .is_expert = true,
                      .layer = layer});
  }
  /// The gain of an RMSNorm; OLMo's LayerNorm has none.
  void gain(const std::string& name, Index layer, Index width, std::optional<int> tp_dim = {}, Index tp_heads = 0) {
    if (config_.is_moe) specs_.push_back({.name = name, .shape = {width}, .init = Init::kOnes, .tp_dim = tp_dim, .tp_heads = tp_heads, .layer = layer});
  }
  std::vector<ParamSpec> specs_;

 private:
  const ModelConfig& config_;
};

void add_attention(SpecList& list, const ModelConfig& c, Index layer, const std::string& prefix) {
  list.matrix(prefix + "q_proj.weight", layer, c.hidden_size, c.hidden_size, 0).tp_heads = c.num_attention_heads;
  list.matrix(prefix + "k_proj.weight", layer, c.kv_size(), c.hidden_size, 0).tp_heads = c.num_key_value_heads;
  list.matrix(prefix + "v_proj.weight", layer, c.kv_size(), c.hidden_size, 0).tp_heads = c.num_key_value_heads;
  list.matrix(prefix + "o_proj.weight", layer, c.hidden_size, c.hidden_size, 1).tp_heads = c.num_attention_heads;
  list.gain(prefix + "q_norm.weight", layer, c.hidden_size, 0, c.num_attention_heads);
  list.gain(prefix + "k_norm.weight", layer, c.kv_size(), 0, c.num_key_value_heads);
}

void add_mlp(SpecList& list, const ModelConfig& c, Index layer, const std::string& prefix) {
  if (c.is_moe) {
    list.matrix(prefix + "gate.weight", layer, c.num_experts, c.hidden_size, {});
    list.experts(prefix + "experts.{}.gate_proj.weight", layer, c.intermediate_size, c.hidden_size, 1);
    list.experts(prefix + "experts.{}.up_proj.weight", layer, c.intermediate_size, c.hidden_size, 1);
    list.experts(prefix + "experts.{}.down_proj.weight", layer, c.hidden_size, c.intermediate_size, 2);
  } else {
    list.matrix(prefix + "gate_proj.weight", layer, c.intermediate_size, c.hidden_size, 0);
    list.matrix(prefix + "up_proj.weight", layer, c.intermediate_size, c.hidden_size, 0);
    list.matrix(prefix + "down_proj.weight", layer, c.hidden_size, c.intermediate_size, 1);
  }
}

/// Elements of a parameter that one token meets: K of E experts, everything of anything else.
Index active_elements(const ModelConfig& config, const ParamSpec& spec) {
  return spec.is_expert ? checked_mul(spec.shape.count_from(1), config.num_experts_per_tok) : spec.shape.count();
}

}  // namespace

std::vector<ParamSpec> parameter_specs(const ModelConfig& config) {
  SpecList list(config);
  ParamSpec& embedding = list.matrix("model.embed_tokens.weight", -1, config.vocab_size, config.hidden_size, 0);
  embedding.zero_row = config.pad_token_id;
  embedding.is_tp_uneven = true;
  for (Index layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    list.gain(prefix + "input_layernorm.weight", layer, config.hidden_size);
    add_attention(list, config, layer, prefix + "self_attn.");
    list.gain(prefix + "post_attention_layernorm.weight", layer, config.hidden_size);
    add_mlp(list, config, layer, prefix + "mlp.");
  }
  list.gain("model.norm.weight", config.num_hidden_layers, config.hidden_size);
  if (!config.tie_word_embeddings) list.matrix("lm_head.weight", config.num_hidden_layers, config.vocab_size, config.hidden_size, 0).is_tp_uneven = true;
  return std::move(list.specs_);
}

ParameterCounts count_parameters(const ModelConfig& config) {
  ParameterCounts counts;
  for (const ParamSpec& spec : parameter_specs(config)) {
    counts.total = checked_add(counts.total, spec.shape.count());
    counts.active = checked_add(counts.active, active_elements(config, spec));
  }
  return counts;
}

double train_flops_per_token(const ModelConfig& config, Index sequence_length) {
  double weights = config.tie_word_embeddings ? static_cast<double>(config.vocab_size) * static_cast<double>(config.hidden_size) : 0.0;
  for (const ParamSpec& spec : parameter_specs(config)) {
    const bool is_product = spec.shape.ndim() > 1 && spec.layer >= 0;
    if (is_product) weights += static_cast<double>(active_elements(config, spec));
  }
  const double attention =
      static_cast<double>(config.num_hidden_layers) * 6.0 * static_cast<double>(config.hidden_size) * static_cast<double>(sequence_length + 1);
  return 6.0 * weights + attention;
}

}  // namespace optimus
