// What a user writes under [model], and the config.json of Hugging Face folders.

#include "optimus/model/config.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace optimus {
namespace {

using Json = nlohmann::json;

/// Every problem as "key: message", one a line.
std::string problems_of(const ModelOverrides& overrides) {
  Problems problems;
  (void)resolve_model(overrides, problems);
  std::string text;
  for (const auto& item : problems.items()) text += item.key + ": " + item.message + "\n";
  return text;
}

ModelConfig resolve(const ModelOverrides& overrides) {
  Problems problems;
  ModelConfig config = resolve_model(overrides, problems);
  for (const auto& item : problems.items()) ADD_FAILURE() << item.key << ": " << item.message;
  return config;
}

Json olmoe_json() {
  return {{"model_type", "olmoe"},   {"vocab_size", 64}, {"hidden_size", 32},        {"num_hidden_layers", 2}, {"num_attention_heads", 4},
          {"intermediate_size", 16}, {"num_experts", 8}, {"num_experts_per_tok", 2}, {"rope_theta", 5000.0},   {"hidden_act", "silu"}};
}

class HfConfig : public testing::Test {
 protected:
  HfConfig()
      : path_(std::filesystem::temp_directory_path() /
              (std::string("optimus_config_") + testing::UnitTest::GetInstance()->current_test_info()->name() + ".json")) {}
  ~HfConfig() override { std::filesystem::remove(path_); }
  ModelConfig read(const Json& json) { return read_text(json.dump()); }
  ModelConfig read_text(const std::string& text) {
    std::ofstream(path_) << text;
    return read_hf_config(path_);
  }
  std::string error_of(const Json& json) { return error_of_text(json.dump()); }
  std::string error_of_text(const std::string& text) {
    try {
      (void)read_text(text);
    } catch (const ConfigError& error) {
      EXPECT_NE(std::string(error.what()).find(path_.string()), std::string::npos) << "the file is not named";
      return error.what();
    }
    ADD_FAILURE() << "no ConfigError";
    return {};
  }
  std::filesystem::path path_;
};

void expect_parts(const std::string& text, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) EXPECT_NE(text.find(part), std::string::npos) << "\"" << part << "\" is not in: " << text;
}

TEST(Presets, HaveThePublishedParameterCounts) {
  struct Published {
    const char* preset;
    Index total;
    double active;
  };
  for (const Published& p :
       {Published{"mula-1b", 1'176'764'416, 1.18e9}, Published{"mula-7b-a1b", 6'919'161'856, 1.3e9}, Published{"mula-20b-a2b", 20'076'824'576, 2.4e9},
        Published{"mula-100b-a7b", 99'987'557'376, 7.6e9}, Published{"mula-220b-a10b", 220'205'681'664, 10e9}}) {
    const ParameterCounts counts = count_parameters(resolve({.preset = p.preset}));
    EXPECT_EQ(counts.total, p.total) << p.preset;
    EXPECT_NEAR(static_cast<double>(counts.active), p.active, 0.05 * p.active) << p.preset;
  }
}

TEST(Presets, Mula7bIsTheDefaultButForItsTokenizer) {
  ModelConfig preset = resolve({.preset = "mula-7b-a1b"});
  preset.eos_token_id = preset.pad_token_id = std::nullopt;
  EXPECT_EQ(preset, resolve({}));
}

TEST(Presets, TakeSingleFields) {
  const ModelConfig config = resolve({.preset = "mula-7b-a1b", .vocab_size = 257, .num_hidden_layers = 2, .num_attention_heads = 8});
  EXPECT_EQ(config.num_hidden_layers, 2);
  EXPECT_EQ(config.num_key_value_heads, 8) << "a model without groups stays without";
  EXPECT_EQ(config.num_experts, 64);
  EXPECT_FALSE(config.pad_token_id.has_value()) << "the published tokenizer's ids mean nothing in another vocabulary";
  EXPECT_EQ(resolve({.preset = "mula-1b"}).pad_token_id, 1);
  EXPECT_TRUE(resolve({.preset = "mula-1b"}).tie_word_embeddings);
}

TEST(ModelOverridesSpelledOut, GiveTheSameModel) {
  ModelConfig config = resolve({.preset = "mula-20b-a2b", .num_key_value_heads = 4, .norm_topk_prob = true, .clip_qkv = 8.0});
  EXPECT_EQ(resolve(spell_out(config)), config);
  config = resolve({.preset = "mula-1b"});
  EXPECT_EQ(resolve(spell_out(config)), config);
}

TEST(ResolveModel, NamesAllProblemsAtOnceWithBothNumbers) {
  ModelOverrides overrides;
  overrides.hidden_size = 100;
  overrides.num_attention_heads = 16;
  overrides.num_key_value_heads = 3;
  overrides.num_experts = 4;
  overrides.num_experts_per_tok = 6;
  overrides.attention_bias = true;
  expect_parts(problems_of(overrides), {"model.hidden_size: 100 is not a multiple of num_attention_heads = 16",
                                        "model.num_key_value_heads: num_attention_heads = 16 is not a multiple of 3",
                                        "model.num_experts_per_tok: 6 is more than num_experts = 4", "model.attention_bias: true"});
}

TEST(ResolveModel, RefusesWhatItCannotCompute) {
  expect_parts(problems_of({.model_type = "llama"}), {"model.model_type: \"llama\" is not implemented", "olmoe"});
  expect_parts(problems_of({.hidden_size = 48, .num_attention_heads = 16}), {"model.hidden_size: 48", "odd head size 3"});
  expect_parts(problems_of({.preset = "mula-1b", .num_experts = 4}), {"model.num_experts: has no effect"});
  expect_parts(problems_of({.preset = "mula-1b", .hf_config = "config.json"}), {"model.hf_config:", "mula-1b"});
  expect_parts(problems_of({.preset = "mula-9b"}), {"model.preset:", "mula-9b"});
  expect_parts(problems_of({.hf_config = "/nowhere/config.json"}), {"model.hf_config:", "/nowhere/config.json"});
  expect_parts(problems_of({.vocab_size = 10, .pad_token_id = 10}), {"model.pad_token_id: 10 is outside the vocabulary of vocab_size = 10"});
}

TEST_F(HfConfig, ReadsThePublishedAndTheNewerSpelling) {
  Json json = olmoe_json();
  EXPECT_EQ(read(json).rope_theta, 5000.0);
  EXPECT_EQ(read(json).num_key_value_heads, 4);
  json.erase("rope_theta");
  json["dtype"] = "bfloat16";
  json["rope_parameters"] = {{"rope_theta", 7000.0}, {"rope_type", "default"}};
  json["pad_token_id"] = 1;
  json["clip_qkv"] = nullptr;
  const ModelConfig config = read(json);
  EXPECT_EQ(config.rope_theta, 7000.0);
  EXPECT_EQ(config.pad_token_id, 1);
  EXPECT_FALSE(config.clip_qkv.has_value());
}

TEST_F(HfConfig, ReadsBackWhatIsWritten) {
  for (const char* preset : {"mula-1b", "mula-100b-a7b"}) {
    ModelConfig config = resolve({.preset = preset, .num_key_value_heads = 4, .clip_qkv = 8.0, .rope_theta = 500000.0});
    const std::string text = write_hf_config(config, "bfloat16");
    EXPECT_EQ(read_text(text), config);
    const Json json = Json::parse(text);
    EXPECT_EQ(json["torch_dtype"], "bfloat16");
    EXPECT_EQ(json["rope_theta"], 500000.0);
    EXPECT_EQ(json["architectures"][0], config.is_moe ? "OlmoeForCausalLM" : "OlmoForCausalLM");
  }
}

TEST_F(HfConfig, NamesEveryMissingAndWrongField) {
  Json json = olmoe_json();
  json.erase("hidden_size");
  json.erase("num_experts");
  json["vocab_size"] = "many";
  json["num_hidden_layers"] = 2.5;
  json["norm_topk_prob"] = 1;
  expect_parts(error_of(json), {"hidden_size is missing", "num_experts is missing", "vocab_size should be an integer, is \"many\"",
                                "num_hidden_layers should be an integer, is 2.5", "norm_topk_prob should be true or false, is 1"});
}

TEST_F(HfConfig, RefusesWhatWouldBeComputedDifferently) {
  Json json = olmoe_json();
  json["hidden_act"] = "gelu";
  json["attention_bias"] = true;
  json["attention_dropout"] = 0.1;
  json["rope_scaling"] = {{"type", "yarn"}, {"factor", 4.0}};
  expect_parts(error_of(json), {"hidden_act \"gelu\"", "attention_bias true", "attention_dropout 0.1", "rope_scaling.rope_type \"yarn\""});
  json = olmoe_json();
  json["rope_parameters"] = {{"rope_theta", 7000.0}, {"rope_type", "linear"}};
  expect_parts(error_of(json), {"rope_parameters.rope_type \"linear\"", "rope_theta 5000 contradicts rope_parameters.rope_theta = 7000"});
  json = olmoe_json();
  json["head_dim"] = 16;
  expect_parts(error_of(json), {"head_dim 16"});
  json = olmoe_json();
  json["hidden_size"] = 30;
  json["num_experts_per_tok"] = 9;
  expect_parts(error_of(json), {"hidden_size 30 is not a multiple", "num_experts_per_tok 9 is more than"});
}

TEST_F(HfConfig, RefusesForeignAndBrokenFiles) {
  Json json = olmoe_json();
  json["model_type"] = "llama";
  expect_parts(error_of(json), {"model_type \"llama\" is not implemented"});
  expect_parts(error_of_text(""), {"is not JSON"});
  expect_parts(error_of_text("{\"vocab_size\": 5"), {"is not JSON"});
  expect_parts(error_of_text("[1, 2]"), {"no table"});
  expect_parts(error_of_text("\x89PNG\r\n\x1a\n"), {"is not JSON"});
  expect_parts(error_of_text("{}"), {"model_type is missing", "vocab_size is missing"});
}

TEST(ParameterSpecs, AreInForwardOrderUnderHuggingFaceNames) {
  const ModelConfig config = resolve({.vocab_size = 64,
                                      .hidden_size = 32,
                                      .num_hidden_layers = 1,
                                      .num_attention_heads = 4,
                                      .num_key_value_heads = 2,
                                      .intermediate_size = 16,
                                      .num_experts = 8,
                                      .num_experts_per_tok = 2});
  std::vector<std::string> names;
  for (const ParamSpec& spec : parameter_specs(config)) names.push_back(spec.name + " " + spec.shape.str());
  EXPECT_EQ(names, (std::vector<std::string>{
                       "model.embed_tokens.weight [64, 32]",
                       "model.layers.0.input_layernorm.weight [32]",
                       "model.layers.0.self_attn.q_proj.weight [32, 32]",
                       "model.layers.0.self_attn.k_proj.weight [16, 32]",
                       "model.layers.0.self_attn.v_proj.weight [16, 32]",
                       "model.layers.0.self_attn.o_proj.weight [32, 32]",
                       "model.layers.0.self_attn.q_norm.weight [32]",
                       "model.layers.0.self_attn.k_norm.weight [16]",
                       "model.layers.0.post_attention_layernorm.weight [32]",
                       "model.layers.0.mlp.gate.weight [8, 32]",
                       "model.layers.0.mlp.experts.{}.gate_proj.weight [8, 16, 32]",
                       "model.layers.0.mlp.experts.{}.up_proj.weight [8, 16, 32]",
                       "model.layers.0.mlp.experts.{}.down_proj.weight [8, 32, 16]",
                       "model.norm.weight [32]",
                       "lm_head.weight [64, 32]",
                   }));
}

TEST(ParameterSpecs, SayHowTheyAreSplit) {
  for (const ParamSpec& spec : parameter_specs(resolve({.preset = "mula-7b-a1b"}))) {
    EXPECT_EQ(spec.is_expert, spec.name.find("experts") != std::string::npos) << spec.name;
    if (spec.name.find("down_proj") != std::string::npos) {
      EXPECT_EQ(spec.tp_dim, 2) << spec.name;
    }
    if (spec.name.find("o_proj") != std::string::npos) {
      EXPECT_EQ(spec.tp_dim, 1) << spec.name;
    }
    if (spec.name.find("mlp.gate.") != std::string::npos || spec.name.find("layernorm") != std::string::npos) {
      EXPECT_FALSE(spec.tp_dim.has_value()) << spec.name;
    }
  }
}

TEST(Flops, CountProductsAndCausalAttention) {
  const ModelConfig config = resolve({.vocab_size = 10,
                                      .hidden_size = 4,
                                      .num_hidden_layers = 3,
                                      .num_attention_heads = 2,
                                      .intermediate_size = 5,
                                      .num_experts = 6,
                                      .num_experts_per_tok = 2});
  // Per layer: q, k, v, o 4*4 each; router 6*4; two experts of three 5*4. Head 10*4. Attention: 6 * 4 * (7 + 1) a layer.
  EXPECT_DOUBLE_EQ(train_flops_per_token(config, 7), 6.0 * (3 * (64 + 24 + 120) + 40) + 3 * 6.0 * 4 * 8);
  ModelConfig tied = config;
  tied.tie_word_embeddings = true;
  EXPECT_DOUBLE_EQ(train_flops_per_token(tied, 7), train_flops_per_token(config, 7)) << "a tied head is a product all the same";
}

}  // namespace
}  // namespace optimus
