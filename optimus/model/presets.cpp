#include "optimus/model/presets.hpp"

#include <fmt/format.h>

namespace optimus {
namespace {

struct PublishedShape {
  std::string_view name;
  Index layers, hidden, heads, intermediate, experts, chosen;
};

// experts = 0: dense.
constexpr PublishedShape kPublished[] = {
    {"mula-1b", 16, 2048, 16, 8192, 0, 0},         {"mula-7b-a1b", 16, 2048, 16, 1024, 64, 8},     {"mula-20b-a2b", 32, 2048, 16, 1024, 96, 8},
    {"mula-100b-a7b", 48, 3072, 24, 1536, 144, 8}, {"mula-220b-a10b", 64, 3072, 24, 1536, 240, 8},
};

}  // namespace

ModelConfig model_preset(std::string_view name) {
  for (const PublishedShape& shape : kPublished) {
    if (shape.name != name) continue;
    ModelConfig config;
    config.is_moe = shape.experts > 0;
    config.num_hidden_layers = shape.layers;
    config.hidden_size = shape.hidden;
    config.num_attention_heads = config.num_key_value_heads = shape.heads;
    config.intermediate_size = shape.intermediate;
    if (config.is_moe) {
      config.num_experts = shape.experts;
      config.num_experts_per_tok = shape.chosen;
    }
    config.max_position_embeddings = config.is_moe ? 4096 : 2048;
    config.tie_word_embeddings = !config.is_moe;
    // Of the published tokenizer: 50279 is <|endoftext|>, 1 is <|padding|>.
    config.eos_token_id = 50279;
    config.pad_token_id = 1;
    return config;
  }
  throw ConfigError(fmt::format("[model] there is no preset \"{}\"", name));
}

}  // namespace optimus
