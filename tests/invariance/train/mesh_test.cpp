// Runs as a user starts them, on several axes at once: what they write is what one rank writes.

#include <gtest/gtest.h>

#include "tests/support/cli_testing.hpp"

namespace optimus::test {
namespace {

class MeshRuns : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fresh_folder();
    data_ = prepare_ids(folder_, some_ids(16 * 40 + 1, 61), 16);
    config_ = write_toy_config(folder_, data_);
  }

  /// Four steps on `ranks`, with everything that can be looked at.
  std::filesystem::path train(const std::string& name, int ranks, const std::vector<std::string>& settings) {
    const auto run = folder_ / name;
    std::vector<std::string> args = {"pretrain", config_.string()};
    std::vector<std::string> all = {"run.dir=" + run.string(),     "run.steps=4",
                                    "model.num_key_value_heads=2", "model.tie_word_embeddings=true",
                                    "optimizer.eps=1e-6",          "optimizer.warmup_steps=1",
                                    "debug.check_replicas=true",   "debug.dump_gradients_steps=[1,3]",
                                    "debug.dump_logits_steps=[2]", "data.validation=" + data_.string(),
                                    "data.validation_interval=2",  "log.tokens_per_expert=true"};
    all.insert(all.end(), settings.begin(), settings.end());
    for (const std::string& setting : all) args.insert(args.end(), {"--set", setting});
    const auto result = run_optimus(args, ranks);
    EXPECT_EQ(result.code, 0) << result.err;
    return run;
  }

  static void expect_same(const std::filesystem::path& actual, const std::filesystem::path& expected) {
    const auto a = read_metrics(actual), e = read_metrics(expected);
    ASSERT_EQ(a.size(), e.size());
    for (std::size_t i = 0; i < a.size(); ++i) {
      for (const char* key : {"lm_loss", "aux_loss", "grad_norm", "validation_loss"}) {
        ASSERT_EQ(a[i].contains(key), e[i].contains(key)) << key;
        if (e[i].contains(key)) {
          EXPECT_NEAR(a[i][key].get<double>(), e[i][key].get<double>(), 2e-5) << key << ", step " << i + 1;
        }
      }
      for (const char* key : {"step", "tokens", "epoch", "first_sample", "sample_ids_hash", "lr"}) EXPECT_EQ(a[i][key], e[i][key]) << key;
    }
    EXPECT_EQ(a[0]["tokens_per_expert"], e[0]["tokens_per_expert"]);
    for (const char* file : {"debug/gradients-step-1.safetensors", "debug/gradients-step-3.safetensors", "debug/logits-step-2.safetensors"})
      expect_close(read_tensors(actual / file), read_tensors(expected / file), 1e-4);
  }

  std::filesystem::path folder_, data_, config_;
};

TEST_F(MeshRuns, WriteWhatOneRankWrites) {
  const auto expected = train("one", 0, {});
  expect_same(train("tp-pp", 4, {"parallel.tp=2", "parallel.pp=2"}), expected);
  expect_same(train("dp-ep", 4, {"parallel.ep=2", "moe.dispatcher=all_to_all", "parallel.order=pp-dp-ep-tp"}), expected);
  expect_same(train("tp", 4, {"parallel.tp=4", "parallel.sequence_parallel=false"}), expected);
  expect_same(train("ep-pp", 4, {"parallel.ep=2", "parallel.pp=2", "parallel.pipeline_schedule=zero_bubble", "recompute.attention=true"}), expected);
}

/// One run goes from layout to layout; its numbers are those of a run that stays.
TEST_F(MeshRuns, GoOnInAnotherLayout) {
  const auto expected = train("one", 0, {});
  const std::string same_folder = "moving";
  (void)train(same_folder, 4, {"parallel.tp=2", "parallel.pp=2", "run.stop_after_step=1"});
  (void)train(same_folder, 2, {"parallel.ep=2", "run.stop_after_step=2"});
  (void)train(same_folder, 2, {"parallel.pp=2", "parallel.optimizer_sharding=none", "run.stop_after_step=3"});
  expect_same(train(same_folder, 4, {"parallel.ep=2", "parallel.tp=2"}), expected);
}

TEST_F(MeshRuns, RefuseImpossibleLayoutsWithAllReasons) {
  std::vector<std::string> args = {"pretrain", config_.string()};
  for (const char* setting : {"model.num_experts=6", "model.num_experts_per_tok=1", "parallel.ep=4", "parallel.tp=3", "parallel.pp=5", "batch.global_batch=10",
                              "batch.micro_batch=4"})
    args.insert(args.end(), {"--set", setting});
  const auto result = run_optimus(args, 4);
  EXPECT_EQ(result.code, 2);
  for (const char* part : {"num_experts 6 cannot be divided over 4", "num_attention_heads 4 cannot be divided over 3", "world of 4 ranks", "5 stages"})
    EXPECT_NE(result.err.find(part), std::string::npos) << part << "\n" << result.err;
}

}  // namespace
}  // namespace optimus::test
