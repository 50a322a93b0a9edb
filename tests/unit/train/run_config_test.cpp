#include "optimus/train/run_config.hpp"

#include <gtest/gtest.h>

#include "optimus/base/error.hpp"
#include "optimus/train/config_docs.hpp"
#include "optimus/train/dry_run.hpp"

namespace optimus {
namespace {

constexpr const char* kSmall = R"(
[model]
num_hidden_layers = 2
hidden_size = 32
num_attention_heads = 4
intermediate_size = 16
num_experts = 4
num_experts_per_tok = 2
vocab_size = 64
[data]
path = "corpus"
sequence_length = 16
[batch]
global_batch = 8
)";

std::string problems_of(const std::vector<std::string>& overrides, Index ranks = 1) {
  try {
    (void)load_run_config_text(kSmall, {.ranks = ranks}, overrides);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

#define EXPECT_HAS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

TEST(RunConfig, ReadsAndDumpsBackEqual) {
  const RunConfig config = load_run_config_text(kSmall, {}, {"run.tokens=1000", "faults=[{kind=\"slow\", step=3}]", "moe.aux_loss_scope=global_batch"});
  EXPECT_EQ(config.run.steps, 8) << "1000 tokens are seven steps of 128 and a part";
  EXPECT_EQ(config.shape.num_experts, 4);
  const std::string dump = dump_run_config(config);
  EXPECT_EQ(dump_run_config(load_run_config_text(dump, {})), dump);
  EXPECT_EQ(load_run_config_text(dump, {}).shape, config.shape);
}

TEST(RunConfig, NamesEveryProblemAtOnce) {
  const std::string text = problems_of(
      {"model.hidden_size=30", "batch.micro_batch=3", "optimizer.betas=[0.9]", "run.stepz=4", "moe.implementation=quick", "data.sequence_length=99999"});
  for (const char* part :
       {"model.hidden_size", "batch.global_batch", "optimizer.betas", "run.stepz", "run.steps", "moe.implementation", "data.sequence_length"})
    EXPECT_HAS(text, part);
}

TEST(RunConfig, NamesBothNumbersThatDoNotDivide) {
  EXPECT_HAS(problems_of({}, 3), "8 cannot be divided over 3 data ranks x micro_batch 1; make it a multiple of 3");
  EXPECT_HAS(problems_of({"parallel.ep=4"}, 6), "6");
  EXPECT_HAS(problems_of({"parallel.ep=3", "batch.global_batch=3"}, 3), "num_experts 4 cannot be divided over 3 ranks");
}

TEST(RunConfig, NamesEveryReasonWhyALayoutCannotBe) {
  const std::string text = problems_of({"model.num_experts=6", "parallel.ep=4", "parallel.tp=4", "model.hidden_size=36", "model.num_attention_heads=6",
                                        "batch.global_batch=10", "batch.micro_batch=4"},
                                       6);
  for (const char* part :
       {"parallel.tp 4 × parallel.ep 4 × parallel.pp 1 = 16 does not divide the world of 6 ranks", "num_experts 6 cannot be divided over 4 ranks",
        "num_attention_heads 6 cannot be divided over 4 ranks", "10 is no multiple of micro_batch 4"})
    EXPECT_HAS(text, part);
  EXPECT_HAS(problems_of({"parallel.tp=4"}, 6), "world of 6 ranks");
  EXPECT_HAS(problems_of({"batch.global_batch=10", "batch.micro_batch=4"}, 2),
             "10 cannot be divided over 2 data ranks x micro_batch 4; make it a multiple of 8");
  EXPECT_HAS(problems_of({"parallel.tp=8", "batch.micro_batch=0"}, 6), "batch.micro_batch");
}

TEST(RunConfig, NamesWhatTensorParallelRanksCannotShare) {
  EXPECT_HAS(problems_of({"parallel.tp=2", "data.sequence_length=15"}, 2), "parallel.sequence_parallel: sequence_length 15 cannot be divided over 2 ranks");
  EXPECT_EQ(problems_of({"parallel.tp=2", "data.sequence_length=15", "parallel.sequence_parallel=false"}, 2), "");
  EXPECT_EQ(problems_of({"data.sequence_length=15"}, 1), "") << "one rank has all rows";
  const auto on_four_ranks = [&](std::vector<std::string> overrides) {
    overrides.insert(overrides.end(), {"model.hidden_size=48", "model.num_attention_heads=12", "parallel.tp=4"});
    return problems_of(overrides, 4);
  };
  EXPECT_HAS(on_four_ranks({"model.num_key_value_heads=6"}), "num_key_value_heads 6 can neither be divided over 4 ranks");
  for (const char* fits : {"1", "2", "4", "12"}) EXPECT_EQ(on_four_ranks({std::string("model.num_key_value_heads=") + fits}), "");
  EXPECT_EQ(on_four_ranks({"model.vocab_size=61"}), "") << "the parts may differ by a row";
  EXPECT_HAS(on_four_ranks({"model.vocab_size=3"}), "vocab_size 3 has nothing for some of 4 ranks");
  EXPECT_HAS(on_four_ranks({"model.intermediate_size=18"}), "intermediate_size 18 cannot be divided over 4 ranks");
}

TEST(RunConfig, TakesEveryAxisAndEverySchedule) {
  for (const char* axis : {"tp", "ep", "pp"}) EXPECT_EQ(problems_of({std::string("parallel.") + axis + "=2"}, 2), "");
  for (const char* schedule : {"1f1b", "gpipe", "zero_bubble"}) EXPECT_EQ(problems_of({std::string("parallel.pipeline_schedule=") + schedule}), "");
  const std::vector<std::string> interleaved = {"parallel.pp=2", "parallel.pipeline_schedule=interleaved", "parallel.virtual_stages=2",
                                                "model.num_hidden_layers=4"};
  EXPECT_EQ(problems_of(interleaved, 2), "");
  std::vector<std::string> odd = interleaved;
  odd.push_back("batch.global_batch=3");
  EXPECT_HAS(problems_of(odd, 2), "parallel.pipeline_schedule");
  EXPECT_HAS(problems_of(odd, 2), "3");
}

TEST(RunConfig, NamesLayoutReasonsBesideAFaultyModel) {
  const std::string text = problems_of({"parallel.tp=8", "batch.global_batch=7", "model.num_attention_heads=5", "parallel.ep=3"}, 24);
  for (const char* part : {"model.hidden_size: 32 is not a multiple of num_attention_heads = 5", "num_experts 4 cannot be divided over 3 ranks",
                           "num_attention_heads 5 cannot be divided over 8 ranks", "7 cannot be divided over 3 data ranks"})
    EXPECT_HAS(text, part);
  EXPECT_HAS(problems_of({"parallel.ep=2", "model.model_type=olmo"}, 2), "parallel.ep: 2 ranks have no experts to share: the model is dense");
}

TEST(RunConfig, RefusesSplitsOfLayersThatCannotBeAddedUp) {
  EXPECT_HAS(problems_of({"parallel.pp=2", "parallel.layers_per_stage=[9223372036854775807,3]"}, 2),
             "parallel.layers_per_stage: adds up to more layers than can be counted");
  EXPECT_HAS(problems_of({"parallel.pp=2", "parallel.layers_per_stage=[1,3]"}, 2), "parallel.layers_per_stage: adds up to 4 layers, the model has 2");
  EXPECT_HAS(problems_of({"parallel.pp=2", "parallel.layers_per_stage=[-1,3]"}, 2), "1 problem in");
  EXPECT_HAS(problems_of({"parallel.virtual_stages=2", "parallel.pipeline_schedule=interleaved"}), "parallel.virtual_stages: 2 virtual stages need pp > 1");
}

TEST(RunConfig, RefusesFaultsInParametersOfOtherRanks) {
  const auto fault = [](const std::string& tensor) { return "faults=[{kind=\"nan\", rank=1, tensor=\"" + tensor + "\"}]"; };
  EXPECT_HAS(problems_of({"parallel.pp=2", fault("model.embed_tokens.weight")}, 2),
             "faults[0].tensor: rank 1 does not hold \"model.embed_tokens.weight\": the rank is on pipeline stage 1, the parameter on stage 0");
  EXPECT_EQ(problems_of({"parallel.pp=2", fault("lm_head.weight")}, 2), "");
  EXPECT_EQ(problems_of({"parallel.ep=2", fault("model.layers.0.mlp.experts.3.up_proj.weight")}, 2), "");
  EXPECT_HAS(problems_of({"parallel.ep=2", fault("model.layers.0.mlp.experts.1.up_proj.weight")}, 2),
             "the rank is on expert-parallel part 1 with experts 2 to 3, expert 1 is on part 0");
  EXPECT_HAS(problems_of({fault("model.layers.0.mlp.experts.4.up_proj.weight")}, 2), "the model has no parameter");
}

TEST(RunConfig, RefusesContradictions) {
  EXPECT_HAS(problems_of({"run.tokens=10", "run.steps=3"}), "run.tokens");
  EXPECT_HAS(problems_of({"precision.weights=fp32", "precision.gradients=bf16"}), "precision.gradients");
  EXPECT_EQ(problems_of({"precision.weights=bf16", "precision.gradients=bf16"}), "");
  EXPECT_HAS(problems_of({"data.path=\"\""}), "data.path");
  EXPECT_HAS(problems_of({"data.sources=[{path=\"a\"}]"}), "data.sources");
  EXPECT_HAS(problems_of({"data.validation_interval=5"}), "data.validation");
  EXPECT_HAS(problems_of({"fault_tolerance.save_on_signal=[\"SIGKILL\"]"}), "SIGKILL");
  EXPECT_HAS(problems_of({"faults=[{kind=\"nan\", rank=4}]"}), "faults[0].rank");
  EXPECT_HAS(problems_of({"faults=[{kind=\"nan\", tensor=\"lm_haed.weight\"}]"}), "lm_haed.weight");
  EXPECT_HAS(problems_of({"faults=[{kind=\"nan\", where=\"activation\"}]"}), "faults[0].where: \"activation\" spoils what ranks send each other");
  EXPECT_HAS(problems_of({"faults=[{kind=\"die\", phase=\"lunch\"}]"}), "lunch");
  EXPECT_HAS(problems_of({"log.straggler_factor=0.5"}), "log.straggler_factor: 0.5 would name half of all ranks");
  EXPECT_HAS(problems_of({"optimizer.schedule=wsd", "optimizer.decay_steps=900", "optimizer.warmup_steps=200"}), "decay_steps");
}

TEST(RunConfig, DocumentsEveryTable) {
  const std::string text = config_reference();
  for (const char* table : {"[run]", "[model]", "[moe]", "[data]", "[batch]", "[optimizer]", "[precision]", "[parallel]", "[recompute]", "[checkpoint]",
                            "[fault_tolerance]", "[log]", "[debug]", "[[faults]]"})
    EXPECT_HAS(text, table);
}

TEST(DryRun, AddsUpToTheFormula) {
  const RunConfig config = load_run_config_text(kSmall, {.needs_data = false}, {"checkpoint.async=false"});
  const DryRun run = plan_run(config, 1);
  EXPECT_EQ(run.parameters, count_parameters(config.shape).total);
  EXPECT_EQ(run.tokens_per_step, 128);
  // Parameters are aligned to 32 elements in their bucket, and all of these sizes are.
  EXPECT_EQ(run.bytes_per_rank.weights, 2 * run.parameters);
  EXPECT_EQ(run.bytes_per_rank.gradients, 4 * run.parameters);
  EXPECT_EQ(run.bytes_per_rank.master, 4 * run.parameters);
  EXPECT_EQ(run.bytes_per_rank.moments, 8 * run.parameters);
  EXPECT_GT(run.bytes_per_rank.activations, 0);
  EXPECT_HAS(dry_run_json(run), "\"bytes_per_rank\":{\"weights\":");
  EXPECT_HAS(dry_run_text(run, config), "[optimizer]");
}

TEST(DryRun, PlansThePublishedLayouts) {
  const std::vector<std::string> layout = {
      "model.preset=mula-220b-a10b", "data.sequence_length=2048", "batch.global_batch=3072", "parallel.pp=8", "parallel.ep=12",
      "recompute.norm=true",         "recompute.attention=true",  "recompute.moe=true"};
  const RunConfig config = load_run_config_text("", {.ranks = 12288, .needs_data = false}, layout);
  const DryRun run = plan_run(config, 12288);
  EXPECT_EQ(run.parameters, 220205681664);
  EXPECT_EQ(run.dp, 128);
  // 220 B parameters over 8 stages and 12 expert ranks, bf16 weights and fp32 gradients, states over the 128 copies: about 2.5 B here, 6 bytes and a little each.
  EXPECT_GT(run.bytes_per_rank.weights, Index{4} << 30);
  EXPECT_LT(run.bytes_per_rank.weights, Index{8} << 30);
  EXPECT_LT(run.bytes_per_rank.master, Index{1} << 27);
}

}  // namespace
}  // namespace optimus
