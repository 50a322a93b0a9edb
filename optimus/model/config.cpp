#include "optimus/model/config.hpp"

#include <fmt/format.h>

#include "optimus/model/checks.hpp"
#include "optimus/model/presets.hpp"

namespace optimus {
namespace {

ModelConfig read_base(const ModelOverrides& overrides, Problems& problems) {
  if (!overrides.preset.empty() && !overrides.hf_config.empty()) {
    problems.add("model.hf_config", fmt::format("is given together with preset = \"{}\"; keep one of the two", overrides.preset));
    return {};
  }
  try {
    if (!overrides.hf_config.empty()) return read_hf_config(overrides.hf_config);
  } catch (const Error& error) {
    problems.add("model.hf_config", error.what());
    return {};
  }
  try {
    if (!overrides.preset.empty()) return model_preset(overrides.preset);
  } catch (const ConfigError& error) {
    problems.add("model.preset", error.what());
  }
  return {};
}

void override_kind(const ModelOverrides& overrides, ModelConfig& config, Problems& problems) {
  if (overrides.model_type == "olmoe") config.is_moe = true;
  else if (overrides.model_type == "olmo") config.is_moe = false;
  else if (overrides.model_type)
    problems.add("model.model_type", fmt::format("\"{}\" is not implemented; allowed are \"olmoe\" and \"olmo\"", *overrides.model_type));
  if (overrides.attention_bias.value_or(false)) problems.add("model.attention_bias", "true is not implemented: set it to false or leave it out");
  if (config.is_moe) return;
  // Nothing would read these: saying so beats training something else than was asked for.
  const auto without_effect = [&](std::string_view field, bool is_given, std::string_view why) {
    if (is_given) problems.add(fmt::format("model.{}", field), fmt::format("has no effect: {}", why));
  };
  without_effect("num_experts", overrides.num_experts.has_value(), "model_type olmo is dense");
  without_effect("num_experts_per_tok", overrides.num_experts_per_tok.has_value(), "model_type olmo is dense");
  without_effect("norm_topk_prob", overrides.norm_topk_prob.has_value(), "model_type olmo is dense");
  without_effect("rms_norm_eps", overrides.rms_norm_eps.has_value(), "the LayerNorm of model_type olmo has the fixed epsilon 1e-5");
}

void override_fields(const ModelOverrides& overrides, ModelConfig& config) {
  const auto replace = [](auto& field, const auto& given) {
    if (given) field = *given;
  };
  // Grouped heads stay as the base has them; a base without groups stays without groups.
  const bool has_groups = config.num_key_value_heads != config.num_attention_heads;
  replace(config.num_attention_heads, overrides.num_attention_heads);
  if (!has_groups) config.num_key_value_heads = config.num_attention_heads;
  replace(config.num_key_value_heads, overrides.num_key_value_heads);
  if (overrides.vocab_size && *overrides.vocab_size != config.vocab_size) {
    // The special tokens belong to the tokenizer of the other vocabulary.
    config.pad_token_id = config.eos_token_id = config.bos_token_id = std::nullopt;
  }
  replace(config.vocab_size, overrides.vocab_size);
  replace(config.hidden_size, overrides.hidden_size);
  replace(config.num_hidden_layers, overrides.num_hidden_layers);
  replace(config.intermediate_size, overrides.intermediate_size);
  replace(config.num_experts, overrides.num_experts);
  replace(config.num_experts_per_tok, overrides.num_experts_per_tok);
  replace(config.max_position_embeddings, overrides.max_position_embeddings);
  replace(config.norm_topk_prob, overrides.norm_topk_prob);
  replace(config.tie_word_embeddings, overrides.tie_word_embeddings);
  replace(config.rope_theta, overrides.rope_theta);
  replace(config.norm_eps, overrides.rms_norm_eps);
  replace(config.initializer_range, overrides.initializer_range);
  if (overrides.clip_qkv) config.clip_qkv = overrides.clip_qkv;
  if (overrides.pad_token_id) config.pad_token_id = overrides.pad_token_id;
  if (overrides.eos_token_id) config.eos_token_id = overrides.eos_token_id;
  if (overrides.bos_token_id) config.bos_token_id = overrides.bos_token_id;
}

}  // namespace

ModelConfig resolve_model(const ModelOverrides& overrides, Problems& problems) {
  const std::size_t before = problems.items().size();
  ModelConfig config = read_base(overrides, problems);
  if (problems.items().size() != before) return config;  // the sizes that were meant are not known
  override_kind(overrides, config, problems);
  override_fields(overrides, config);
  check_model(config, [&](std::string_view field, const std::string& message) { problems.add(fmt::format("model.{}", field), message); });
  return config;
}

ModelOverrides spell_out(const ModelConfig& config) {
  ModelOverrides all;
  all.model_type = config.is_moe ? "olmoe" : "olmo";
  all.vocab_size = config.vocab_size;
  all.hidden_size = config.hidden_size;
  all.num_hidden_layers = config.num_hidden_layers;
  all.num_attention_heads = config.num_attention_heads;
  all.num_key_value_heads = config.num_key_value_heads;
  all.intermediate_size = config.intermediate_size;
  all.max_position_embeddings = config.max_position_embeddings;
  all.tie_word_embeddings = config.tie_word_embeddings;
  all.attention_bias = false;
  all.clip_qkv = config.clip_qkv;
  all.rope_theta = config.rope_theta;
  all.initializer_range = config.initializer_range;
  all.pad_token_id = config.pad_token_id;
  all.eos_token_id = config.eos_token_id;
  all.bos_token_id = config.bos_token_id;
  if (config.is_moe) {
    all.num_experts = config.num_experts;
    all.num_experts_per_tok = config.num_experts_per_tok;
    all.norm_topk_prob = config.norm_topk_prob;
    all.rms_norm_eps = config.norm_eps;
  }
  return all;
}

}  // namespace optimus
