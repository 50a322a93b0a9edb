#include "optimus/model/checks.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "optimus/base/counted.hpp"

namespace optimus {
namespace {

void check_sizes(const ModelConfig& config, const ReportField& report) {
  const auto at_least_one = [&](std::string_view field, Index value) {
    if (value < 1) report(field, fmt::format("must be at least 1, is {}", value));
  };
  at_least_one("vocab_size", config.vocab_size);
  at_least_one("hidden_size", config.hidden_size);
  at_least_one("num_hidden_layers", config.num_hidden_layers);
  at_least_one("num_attention_heads", config.num_attention_heads);
  at_least_one("num_key_value_heads", config.num_key_value_heads);
  at_least_one("intermediate_size", config.intermediate_size);
  at_least_one("max_position_embeddings", config.max_position_embeddings);
  if (config.is_moe) {
    at_least_one("num_experts", config.num_experts);
    at_least_one("num_experts_per_tok", config.num_experts_per_tok);
  }
  // Token ids and positions are 32-bit; the other limits keep products of sizes far from overflow.
  const auto fits = [&](std::string_view field, Index value) {
    if (value > std::numeric_limits<std::int32_t>::max()) report(field, fmt::format("{} does not fit 32 bits", value));
  };
  fits("vocab_size", config.vocab_size);
  fits("hidden_size", config.hidden_size);
  fits("num_hidden_layers", config.num_hidden_layers);
  fits("num_attention_heads", config.num_attention_heads);
  fits("intermediate_size", config.intermediate_size);
  fits("max_position_embeddings", config.max_position_embeddings);
  if (config.is_moe) fits("num_experts", config.num_experts);
  // Every layer and expert is a tensor with a name: beyond this a mistyped size would fill the memory with names before anything could refuse it.
  constexpr Index kMostLayers = 1 << 16, kMostExperts = 1 << 16, kMostExpertsInAll = 1 << 22;
  if (config.num_hidden_layers > kMostLayers) report("num_hidden_layers", fmt::format("{} is more than {}", config.num_hidden_layers, kMostLayers));
  if (!config.is_moe) return;
  if (config.num_experts > kMostExperts) report("num_experts", fmt::format("{} is more than {}", config.num_experts, kMostExperts));
  else if (config.num_hidden_layers <= kMostLayers && config.num_hidden_layers * config.num_experts > kMostExpertsInAll)
    report("num_experts",
           fmt::format("{} in each of {} are more than {} in all", config.num_experts, counted(config.num_hidden_layers, "layer"), kMostExpertsInAll));
}

/// Parameters and their bytes must be countable.
void check_total(const ModelConfig& config, const ReportField& report) {
  constexpr double kMostParameters = 1e16;
  const double d = static_cast<double>(config.hidden_size), layers = static_cast<double>(config.num_hidden_layers);
  const double experts = config.is_moe ? static_cast<double>(config.num_experts) : 1;
  const double total = d * (2.0 * static_cast<double>(config.vocab_size) + layers * (4.0 * d + 3.0 * experts * static_cast<double>(config.intermediate_size)));
  if (total > kMostParameters)
    report("hidden_size",
           fmt::format("{} makes a model of about {:.0e} parameters with the other sizes; {:.0e} is the most", config.hidden_size, total, kMostParameters));
}

void check_heads(const ModelConfig& config, const ReportField& report) {
  const Index hidden = config.hidden_size, heads = config.num_attention_heads, kv_heads = config.num_key_value_heads;
  if (hidden < 1 || heads < 1) return;
  if (hidden % heads != 0) {
    report("hidden_size", fmt::format("{} is not a multiple of num_attention_heads = {}", hidden, heads));
  } else if (config.head_size() % 2 != 0) {
    report("hidden_size",
           fmt::format("{} over num_attention_heads = {} gives the odd head size {}; rotary positions turn pairs", hidden, heads, config.head_size()));
  }
  if (kv_heads >= 1 && heads % kv_heads != 0) report("num_key_value_heads", fmt::format("num_attention_heads = {} is not a multiple of {}", heads, kv_heads));
}

void check_numbers(const ModelConfig& config, const ReportField& report) {
  const auto positive = [&](std::string_view field, double value) {
    if (!(value > 0) || !std::isfinite(value)) report(field, fmt::format("must be a positive number, is {}", value));
  };
  positive("rope_theta", config.rope_theta);
  positive("rms_norm_eps", config.norm_eps);
  if (config.clip_qkv) positive("clip_qkv", *config.clip_qkv);
  if (!(config.initializer_range >= 0) || !std::isfinite(config.initializer_range))
    report("initializer_range", fmt::format("must be 0 or a positive number, is {}", config.initializer_range));
  const auto in_vocabulary = [&](std::string_view field, const std::optional<Index>& id) {
    if (id && (*id < 0 || *id >= config.vocab_size)) report(field, fmt::format("{} is outside the vocabulary of vocab_size = {}", *id, config.vocab_size));
  };
  in_vocabulary("pad_token_id", config.pad_token_id);
  in_vocabulary("eos_token_id", config.eos_token_id);
  in_vocabulary("bos_token_id", config.bos_token_id);
}

}  // namespace

void check_model(const ModelConfig& config, const ReportField& report) {
  check_sizes(config, report);
  check_total(config, report);
  check_heads(config, report);
  if (config.is_moe && config.num_experts_per_tok > config.num_experts) {
    report("num_experts_per_tok", fmt::format("{} is more than num_experts = {}", config.num_experts_per_tok, config.num_experts));
  }
  check_numbers(config, report);
}

}  // namespace optimus
