#pragma once
// The shape of a model, under Hugging Face's names. Presets, config.json and single overrides all end here.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "optimus/config/field.hpp"
#include "optimus/tensor/param_spec.hpp"

namespace optimus {

/// `[model]` as a user writes it: a preset or a config.json, then single fields. What is not given comes from there.
struct ModelOverrides {
  std::string preset, hf_config;
  std::optional<std::string> model_type;
  std::optional<Index> vocab_size, hidden_size, num_hidden_layers, num_attention_heads, num_key_value_heads, intermediate_size, num_experts,
      num_experts_per_tok, max_position_embeddings, pad_token_id, eos_token_id, bos_token_id;
  std::optional<bool> norm_topk_prob, tie_word_embeddings, attention_bias;
  std::optional<double> clip_qkv, rope_theta, rms_norm_eps, initializer_range;
};

template <class Visitor> void describe(Visitor& v, ModelOverrides& c) {
  v.choice("preset", c.preset, {"", "mula-1b", "mula-7b-a1b", "mula-20b-a2b", "mula-100b-a7b", "mula-220b-a10b"}, "A published shape to start from.");
  v.field("hf_config", c.hf_config, "Path of a Hugging Face config.json to start from (model_type olmo or olmoe).");
  v.field("model_type", c.model_type, "olmoe (mixture of experts) or olmo (dense). Default olmoe.");
  v.field("vocab_size", c.vocab_size, "Rows of the embedding and of the head, V.", at_least(1));
  v.field("hidden_size", c.hidden_size, "Width of the residual stream, D.", at_least(1));
  v.field("num_hidden_layers", c.num_hidden_layers, "Blocks, L.", at_least(1));
  v.field("num_attention_heads", c.num_attention_heads, "Query heads, H.", at_least(1));
  v.field("num_key_value_heads", c.num_key_value_heads, "Key and value heads; default num_attention_heads.", at_least(1));
  v.field("intermediate_size", c.intermediate_size, "Width of the MLP or of one expert, F.", at_least(1));
  v.field("num_experts", c.num_experts, "Experts a layer, E.", at_least(1));
  v.field("num_experts_per_tok", c.num_experts_per_tok, "Experts chosen for a token, K.", at_least(1));
  v.field("norm_topk_prob", c.norm_topk_prob, "Divide the chosen probabilities by their sum.");
  v.field("clip_qkv", c.clip_qkv, "Clamp queries, keys and values to this magnitude.", above(0.0));
  v.field("rope_theta", c.rope_theta, "Base of the rotary angles.", above(0.0));
  v.field("rms_norm_eps", c.rms_norm_eps, "Epsilon inside the root of RMSNorm.", above(0.0));
  v.field("tie_word_embeddings", c.tie_word_embeddings, "One tensor for embedding and head.");
  v.field("max_position_embeddings", c.max_position_embeddings, "Longest sequence.", at_least(1));
  v.field("initializer_range", c.initializer_range, "Standard deviation of initial Linear and Embedding weights.", at_least(0.0));
  v.field("attention_bias", c.attention_bias, "Only false: biases are not implemented.");
  v.field("pad_token_id", c.pad_token_id, "Token whose embedding starts as 0.", at_least(0));
  v.field("eos_token_id", c.eos_token_id, "End of a document, for the config.json of exports.", at_least(0));
  v.field("bos_token_id", c.bos_token_id, "Start of a document, for the config.json of exports.", at_least(0));
}

/// A complete, consistent model shape.
struct ModelConfig {
  bool is_moe = true;  ///< olmoe; false: olmo (dense, LayerNorm without parameters, no q/k norm)
  Index vocab_size = 50304, hidden_size = 2048, num_hidden_layers = 16, num_attention_heads = 16, num_key_value_heads = 16, intermediate_size = 1024;
  Index num_experts = 64, num_experts_per_tok = 8, max_position_embeddings = 4096;
  bool norm_topk_prob = false, tie_word_embeddings = false;
  std::optional<double> clip_qkv;
  double rope_theta = 10000.0, norm_eps = 1e-5, initializer_range = 0.02;
  std::optional<Index> pad_token_id, eos_token_id, bos_token_id;

  [[nodiscard]] Index head_size() const { return hidden_size / num_attention_heads; }
  [[nodiscard]] Index kv_size() const { return num_key_value_heads * head_size(); }  ///< width of the key and of the value projection
  [[nodiscard]] bool operator==(const ModelConfig&) const = default;
};

/// Preset or config.json, overrides applied, consistency checked. What neither gives has the default of ModelConfig.
///
/// Every problem is added to `problems` under its key ("model.hidden_size"); the result is only meaningful if none was.
/// Another vocab_size than the base's drops the base's special tokens: they belong to its tokenizer.
[[nodiscard]] ModelConfig resolve_model(const ModelOverrides& overrides, Problems& problems);
/// The overrides that give `config` without preset or file, for the run folder's copy of the configuration: resolve_model of them is `config`.
[[nodiscard]] ModelOverrides spell_out(const ModelConfig& config);

/// A Hugging Face config.json in the published or the newer spelling.
/// Errors: ConfigError naming the file and every field that is missing, of the wrong type or not supported.
[[nodiscard]] ModelConfig read_hf_config(const std::filesystem::path& path);
/// The same from its text; `origin` names it in messages (checkpoints keep the text in their manifest).
[[nodiscard]] ModelConfig parse_hf_config(const std::string& text, const std::string& origin);
/// The config.json that `transformers` loads, in the published spelling. `dtype`: "float32" or "bfloat16".
[[nodiscard]] std::string write_hf_config(const ModelConfig& config, const std::string& dtype);

/// All parameters in forward order: embedding, blocks, final norm, head. A tied head is no parameter of its own.
[[nodiscard]] std::vector<ParamSpec> parameter_specs(const ModelConfig& config);
/// Parameters in all, and those a token meets (K of E experts).
struct ParameterCounts {
  Index total = 0, active = 0;
};
[[nodiscard]] ParameterCounts count_parameters(const ModelConfig& config);
/// Floating-point operations of forward and backward for one token of a sequence of S, without recomputation:
///
///   6 * (weights in matrix products that the token meets)  +  L * 6 * D * (S + 1)
///
/// The first term: a multiply and an add forward, twice that backward; the embedding lookup is no product, the head is one, tied or not; K of E experts.
/// The second: query i meets i + 1 keys, (S + 1) / 2 on average, in two products of 2 * D operations forward and twice that backward.
[[nodiscard]] double train_flops_per_token(const ModelConfig& config, Index sequence_length);

}  // namespace optimus
