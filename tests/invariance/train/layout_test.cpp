// The layout never changes results: ranks and micro-batches cut the same global batch in different ways.

#include <gtest/gtest.h>

#include "tests/support/cli_testing.hpp"

namespace optimus::test {
namespace {

struct Layout {
  int ranks, micro_batch;
};

/// Three SGD steps, which show gradients at their true scale.
std::filesystem::path train(const std::filesystem::path& folder, const std::filesystem::path& data, const Layout& layout,
                            const std::vector<std::string>& settings, const std::string& prefix = "") {
  std::filesystem::create_directories(folder);
  const auto run = folder / ("run-" + std::to_string(layout.ranks) + "-" + std::to_string(layout.micro_batch));
  std::vector<std::string> args = {"pretrain", write_toy_config(folder, data).string()};
  std::vector<std::string> all = {"run.dir=" + run.string(),     "run.steps=3",
                                  "optimizer.name=sgd",          "optimizer.lr=0.5",
                                  "optimizer.schedule=constant", "optimizer.warmup_steps=0",
                                  "optimizer.clip_norm=0",       "debug.dump_gradients_steps=[1,3]",
                                  "batch.global_batch=16",       "batch.micro_batch=" + std::to_string(layout.micro_batch)};
  all.insert(all.end(), settings.begin(), settings.end());
  for (const std::string& setting : all) args.insert(args.end(), {"--set", setting});
  const auto result = run_optimus(args, layout.ranks > 1 ? layout.ranks : 0, prefix);
  EXPECT_EQ(result.code, 0) << result.err;
  return run;
}

void expect_equal_runs(const std::filesystem::path& actual, const std::filesystem::path& expected, bool with_aux) {
  const auto a = read_metrics(actual), e = read_metrics(expected);
  ASSERT_EQ(a.size(), e.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i]["lm_loss"].get<double>(), e[i]["lm_loss"].get<double>(), 1e-5) << "step " << i + 1;
    if (with_aux) {
      EXPECT_NEAR(a[i]["aux_loss"].get<double>(), e[i]["aux_loss"].get<double>(), 1e-5) << "step " << i + 1;
    }
    for (const char* key : {"sample_ids_hash", "first_sample", "tokens", "epoch"}) EXPECT_EQ(a[i][key], e[i][key]) << key;
  }
  for (const char* file : {"debug/gradients-step-1.safetensors", "debug/gradients-step-3.safetensors"})
    expect_close(read_tensors(actual / file), read_tensors(expected / file), 1e-5);
}

TEST(Layout, RanksAndMicroBatchesGiveTheSameLossesAndGradients) {
  const auto folder = fresh_folder();
  const auto data = prepare_ids(folder, some_ids(16 * 30 + 1, 61), 16);
  const std::vector<std::string> settings = {"moe.aux_loss_scope=global_batch", "moe.z_loss_coefficient=0.001"};
  const auto expected = train(folder, data, {1, 16}, settings);
  for (const Layout layout : {Layout{1, 1}, Layout{1, 2}, Layout{1, 4}, Layout{1, 8}, Layout{2, 1}, Layout{2, 2}, Layout{2, 4}, Layout{2, 8}})
    expect_equal_runs(train(folder, data, layout, settings), expected, true);
}

TEST(Layout, RanksGiveTheSameBalancingLossOfMicroBatches) {
  const auto folder = fresh_folder();
  const auto data = prepare_ids(folder, some_ids(16 * 30 + 1, 61), 16);
  expect_equal_runs(train(folder, data, {2, 2}, {}), train(folder, data, {1, 2}, {}), true);
}

/// Labels are spread unevenly over ranks and micro-batches, and one row has none at all: a mean of means would show.
TEST(Layout, LossIsWeightedByTokensWhereLabelsAreMasked) {
  const auto folder = fresh_folder();
  std::vector<int> ids = some_ids(16 * 8 + 1, 61);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (i < 17 || i % 5 == 0) ids[i] = 60;
  }
  const auto data = prepare_ids(folder, ids, 16, {"--end-of-document", "60"});
  const std::vector<std::string> settings = {"data.mask_document_boundaries=true", "moe.aux_loss_coefficient=0.0"};
  const auto expected = train(folder, data, {1, 16}, settings);
  expect_equal_runs(train(folder, data, {1, 1}, settings), expected, false);
  expect_equal_runs(train(folder, data, {2, 1}, settings), expected, false);
}

TEST(Layout, OptimizerShardingDoesNotMatter) {
  const auto folder = fresh_folder();
  const auto data = prepare_ids(folder, some_ids(16 * 30 + 1, 61), 16);
  const auto expected = train(folder, data, {2, 4}, {"parallel.optimizer_sharding=none"});
  const std::string weights = consolidated(expected), metrics = metrics_without_times(expected);
  for (const char* sharding : {"so", "epso"}) {
    const auto run = train(folder / sharding, data, {2, 4}, {std::string("parallel.optimizer_sharding=") + sharding, "parallel.overlap=false"});
    expect_equal_runs(run, expected, true);
    EXPECT_EQ(consolidated(run), weights) << sharding;
  }
}

TEST(Layout, TwoLevelsGiveTheSameBytesOnOneNode) {
  const auto folder = fresh_folder();
  const auto data = prepare_ids(folder, some_ids(16 * 30 + 1, 61), 16);
  const auto flat = train(folder, data, {2, 4}, {"parallel.two_level=off"});
  for (const char* sharding : {"none", "epso"}) {
    const auto run = train(folder / sharding, data, {2, 4}, {"parallel.two_level=on", std::string("parallel.optimizer_sharding=") + sharding});
    expect_equal_runs(run, flat, true);
    EXPECT_EQ(consolidated(run), consolidated(flat)) << sharding;
  }
}

TEST(Layout, ThreadsAndRecomputationGiveTheSameBytes) {
  const auto folder = fresh_folder();
  const auto data = prepare_ids(folder, some_ids(16 * 30 + 1, 61), 16);
  for (const std::string weights : {"bf16", "fp32"}) {
    const auto one = train(folder / (weights + "-one"), data, {1, 4}, {"precision.weights=" + weights});
    const std::string metrics = metrics_without_times(one), state = consolidated(one);
    const auto recomputed =
        train(folder / (weights + "-recomputed"), data, {1, 4}, {"precision.weights=" + weights, "recompute={norm=true, attention=true, moe=true}"});
    EXPECT_EQ(metrics_without_times(recomputed), metrics) << weights;
    EXPECT_EQ(consolidated(recomputed), state) << weights;
    const auto two = train(folder / (weights + "-two"), data, {1, 4}, {"precision.weights=" + weights}, "OMP_NUM_THREADS=2");
    EXPECT_EQ(metrics_without_times(two), metrics) << weights;
    EXPECT_EQ(consolidated(two), state) << weights;
  }
}

}  // namespace
}  // namespace optimus::test
