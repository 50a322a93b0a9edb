// config.json of Hugging Face's OlmoForCausalLM and OlmoeForCausalLM.

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "optimus/base/file.hpp"
#include "optimus/model/checks.hpp"
#include "optimus/model/config.hpp"

namespace optimus {
namespace {

using Json = nlohmann::json;

/// The fields of one JSON object, and everything wrong with them.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  void add_problem(std::string_view field, std::string_view message) { problems_.push_back(fmt::format("{} {}", field, message)); }
  [[nodiscard]] const std::vector<std::string>& problems() const { return problems_; }

  /// The member, or nullptr if it is absent or null.
  [[nodiscard]] const Json* find(const char* field) const {
    const auto it = object_.find(field);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }
  void required(const char* field, Index& value) {
    if (find(field) == nullptr) add_problem(field, "is missing");
    optional(field, value);
  }
  void optional(const char* field, Index& value) {
    const Json* found = find(field);
    if (found == nullptr) return;
    if (!found->is_number_integer() || (found->is_number_unsigned() && found->get<std::uint64_t>() > std::uint64_t{1} << 62))
      return wrong_type(field, *found, "an integer");
    value = found->get<Index>();
  }
  void optional(const char* field, double& value) {
    const Json* found = find(field);
    if (found == nullptr) return;
    if (!found->is_number()) return wrong_type(field, *found, "a number");
    value = found->get<double>();
  }
  void optional(const char* field, bool& value) {
    const Json* found = find(field);
    if (found == nullptr) return;
    if (!found->is_boolean()) return wrong_type(field, *found, "true or false");
    value = found->get<bool>();
  }
  void optional(const char* field, std::string& value) {
    const Json* found = find(field);
    if (found == nullptr) return;
    if (!found->is_string()) return wrong_type(field, *found, "a string");
    value = found->get<std::string>();
  }
  template <class T> void optional(const char* field, std::optional<T>& value) {
    if (find(field) == nullptr) return;
    T present{};
    optional(field, present);
    value = present;
  }

 private:
  void wrong_type(const char* field, const Json& found, std::string_view wanted) {
    add_problem(field, fmt::format("should be {}, is {}", wanted, found.dump()));
  }
  const Json& object_;
  std::vector<std::string> problems_;
};

void read_model_type(Fields& fields, ModelConfig& config) {
  if (fields.find("model_type") == nullptr) return fields.add_problem("model_type", "is missing; olmoe and olmo can be read");
  std::string type;
  fields.optional("model_type", type);
  if (type != "olmoe" && type != "olmo" && !type.empty()) fields.add_problem("model_type", fmt::format("\"{}\" is not implemented; olmoe and olmo are", type));
  config.is_moe = type != "olmo";
}

/// Rotary positions in either spelling: rope_theta and rope_scaling, or rope_parameters. Only unscaled ones are implemented.
void read_rope(Fields& fields, ModelConfig& config) {
  std::optional<double> published, newer;
  fields.optional("rope_theta", published);
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const Json* table = fields.find(name);
    if (table == nullptr) continue;
    if (!table->is_object()) {
      fields.add_problem(name, fmt::format("should be a table, is {}", table->dump()));
      continue;
    }
    Fields inner(*table);
    std::string type = "default";
    double partial = 1.0;
    inner.optional("type", type);
    inner.optional("rope_type", type);
    inner.optional("rope_theta", newer);
    inner.optional("partial_rotary_factor", partial);
    if (type != "default") inner.add_problem("rope_type", fmt::format("\"{}\" is not implemented; \"default\" is", type));
    if (partial != 1.0) inner.add_problem("partial_rotary_factor", fmt::format("{} is not implemented; 1.0 is", partial));
    for (const std::string& problem : inner.problems())
      fields.add_problem(fmt::format("{}.{}", name, problem.substr(0, problem.find(' '))), problem.substr(problem.find(' ') + 1));
  }
  if (published && newer && *published != *newer)
    fields.add_problem("rope_theta", fmt::format("{} contradicts rope_parameters.rope_theta = {}", *published, *newer));
  config.rope_theta = published.value_or(newer.value_or(config.rope_theta));
}

void read_sizes(Fields& fields, ModelConfig& config) {
  fields.required("vocab_size", config.vocab_size);
  fields.required("hidden_size", config.hidden_size);
  fields.required("num_hidden_layers", config.num_hidden_layers);
  fields.required("num_attention_heads", config.num_attention_heads);
  fields.required("intermediate_size", config.intermediate_size);
  config.num_key_value_heads = config.num_attention_heads;
  fields.optional("num_key_value_heads", config.num_key_value_heads);
  config.max_position_embeddings = config.is_moe ? 4096 : 2048;
  fields.optional("max_position_embeddings", config.max_position_embeddings);
  if (!config.is_moe) return;
  fields.required("num_experts", config.num_experts);
  fields.required("num_experts_per_tok", config.num_experts_per_tok);
  fields.optional("norm_topk_prob", config.norm_topk_prob);
  fields.optional("rms_norm_eps", config.norm_eps);
}

/// Fields that change what the model computes and that are only implemented with one value.
void read_unsupported(Fields& fields, const ModelConfig& config) {
  std::string activation = "silu";
  bool has_bias = false;
  double dropout = 0;
  fields.optional("hidden_act", activation);
  fields.optional("attention_bias", has_bias);
  fields.optional("attention_dropout", dropout);
  if (activation != "silu") fields.add_problem("hidden_act", fmt::format("\"{}\" is not implemented; \"silu\" is", activation));
  if (has_bias) fields.add_problem("attention_bias", "true is not implemented; false is");
  if (dropout != 0) fields.add_problem("attention_dropout", fmt::format("{} is not implemented; 0.0 is", dropout));
  if (fields.find("quantization_config") != nullptr) fields.add_problem("quantization_config", "is not implemented: quantised weights cannot be read");
  std::optional<Index> head_size;
  fields.optional("head_dim", head_size);
  if (head_size && config.num_attention_heads >= 1 && *head_size * config.num_attention_heads != config.hidden_size) {
    fields.add_problem("head_dim", fmt::format("{} is not implemented; hidden_size / num_attention_heads = {} / {} is", *head_size, config.hidden_size,
                                               config.num_attention_heads));
  }
}

Json parse(const std::string& text, const std::string& origin) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) throw ConfigError(fmt::format("[model] {} is not JSON; give a Hugging Face config.json", origin));
  if (!json.is_object()) throw ConfigError(fmt::format("[model] {} is no table of fields; give a Hugging Face config.json", origin));
  return json;
}

}  // namespace

ModelConfig read_hf_config(const std::filesystem::path& path) {
  std::string text;
  try {
    text = read_file(path);
  } catch (const FileError& error) {
    throw ConfigError(fmt::format("[model] cannot read the model's config.json: {}", error.what()));
  }
  return parse_hf_config(text, path.string());
}

ModelConfig parse_hf_config(const std::string& text, const std::string& origin) {
  const Json json = parse(text, origin);
  Fields fields(json);
  ModelConfig config;
  read_model_type(fields, config);
  read_sizes(fields, config);
  read_rope(fields, config);
  fields.optional("tie_word_embeddings", config.tie_word_embeddings);
  fields.optional("initializer_range", config.initializer_range);
  fields.optional("clip_qkv", config.clip_qkv);
  fields.optional("pad_token_id", config.pad_token_id);
  fields.optional("eos_token_id", config.eos_token_id);
  fields.optional("bos_token_id", config.bos_token_id);
  read_unsupported(fields, config);
  if (fields.problems().empty()) check_model(config, [&](std::string_view field, const std::string& message) { fields.add_problem(field, message); });
  if (fields.problems().empty()) return config;
  std::string message = fmt::format("[model] {} does not describe a model that can be built:", origin);
  for (const std::string& problem : fields.problems()) message += fmt::format("\n  {}", problem);
  throw ConfigError(message);
}

std::string write_hf_config(const ModelConfig& config, const std::string& dtype) {
  const auto or_null = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  Json json = {
      {"architectures", {config.is_moe ? "OlmoeForCausalLM" : "OlmoForCausalLM"}},
      {"attention_bias", false},
      {"attention_dropout", 0.0},
      {"bos_token_id", or_null(config.bos_token_id)},
      {"clip_qkv", or_null(config.clip_qkv)},
      {"eos_token_id", or_null(config.eos_token_id)},
      {"hidden_act", "silu"},
      {"hidden_size", config.hidden_size},
      {"initializer_range", config.initializer_range},
      {"intermediate_size", config.intermediate_size},
      {"max_position_embeddings", config.max_position_embeddings},
      {"model_type", config.is_moe ? "olmoe" : "olmo"},
      {"num_attention_heads", config.num_attention_heads},
      {"num_hidden_layers", config.num_hidden_layers},
      {"num_key_value_heads", config.num_key_value_heads},
      {"pad_token_id", or_null(config.pad_token_id)},
      {"rope_scaling", nullptr},
      {"rope_theta", config.rope_theta},
      {"tie_word_embeddings", config.tie_word_embeddings},
      {"torch_dtype", dtype},
      {"use_cache", true},
      {"vocab_size", config.vocab_size},
  };
  if (config.is_moe) {
    json["norm_topk_prob"] = config.norm_topk_prob;
    json["num_experts"] = config.num_experts;
    json["num_experts_per_tok"] = config.num_experts_per_tok;
    json["output_router_logits"] = false;
    json["rms_norm_eps"] = config.norm_eps;
    json["router_aux_loss_coef"] = 0.01;
  }
  return json.dump(2) + "\n";
}

}  // namespace optimus
