// A run that was stopped and resumed is the same run: the same bytes of everything but times.

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/cli_testing.hpp"

namespace optimus::test {
namespace {

class Resume : public testing::Test {
 protected:
  /// 13 samples in shards of 3, 4 a step: epochs end inside steps 4 and 7 and at 13, shards end everywhere.
  void SetUp() override {
    folder_ = fresh_folder();
    data_ = prepare_ids(folder_, some_ids(16 * 13 + 1, 61), 16, {"--shard-tokens", "48"});
    config_ = write_toy_config(folder_, data_);
  }
  std::filesystem::path run(const std::string& name, const std::vector<std::string>& settings, int ranks = 0) {
    std::vector<std::string> args = {"pretrain", config_.string(),     "--set", "run.dir=" + (folder_ / name).string(),
                                     "--set",    "run.steps=9",        "--set", "batch.global_batch=4",
                                     "--set",    "batch.micro_batch=2"};
    for (const std::string& setting : settings) args.insert(args.end(), {"--set", setting});
    const auto result = run_optimus(args, ranks);
    EXPECT_EQ(result.code, 0) << result.err;
    return folder_ / name;
  }
  std::filesystem::path folder_, data_, config_;
};

TEST_F(Resume, GivesTheSameBytesFromAnyStep) {
  for (const std::string weights : {"precision.weights=bf16", "precision.weights=fp32"}) {
    const auto whole = run("whole", {weights, "run.resume=never"});
    const std::string metrics = metrics_without_times(whole), state = consolidated(whole);
    for (int stop = 1; stop < 9; ++stop) {
      const auto dir = run("stopped", {weights, "run.resume=never", "run.stop_after_step=" + std::to_string(stop)});
      ASSERT_EQ(read_metrics(dir).size(), static_cast<std::size_t>(stop));
      run("stopped", {weights});
      EXPECT_EQ(metrics_without_times(dir), metrics) << weights << ", stopped after step " << stop;
      EXPECT_EQ(consolidated(dir), state) << weights << ", stopped after step " << stop;
    }
  }
}

TEST_F(Resume, GivesTheSameBytesOnTwoRanks) {
  const auto whole = run("whole", {}, 2);
  const std::string metrics = metrics_without_times(whole), state = consolidated(whole);
  for (const int stop : {3, 4}) {
    const auto dir = run("stopped", {"run.resume=never", "run.stop_after_step=" + std::to_string(stop)}, 2);
    run("stopped", {}, 2);
    EXPECT_EQ(metrics_without_times(dir), metrics);
    EXPECT_EQ(consolidated(dir), state);
  }
}

TEST_F(Resume, GoesOnFromAnIntervalCheckpointAndForgetsLaterLines) {
  const auto whole = run("whole", {});
  const std::string metrics = metrics_without_times(whole), state = consolidated(whole);
  for (const char* async : {"checkpoint.async=true", "checkpoint.async=false"}) {
    // Killed in step 8 after checkpoints of steps 3 and 6: lines 7 and 8 are written again.
    const std::vector<std::string> settings = {async, "checkpoint.interval=3"};
    std::vector<std::string> args = {"pretrain", config_.string(),     "--set", "run.dir=" + (folder_ / "killed").string(),
                                     "--set",    "run.steps=9",        "--set", "batch.global_batch=4",
                                     "--set",    "batch.micro_batch=2"};
    for (const std::string& setting : settings) args.insert(args.end(), {"--set", setting});
    args.insert(args.end(), {"--set", "run.resume=never", "--set", "faults=[{kind=\"die\", step=8}]"});
    std::filesystem::remove_all(folder_ / "killed");
    EXPECT_EQ(run_optimus(args).code, 128 + 9);
    std::ofstream(folder_ / "killed" / "metrics.jsonl", std::ios::app) << "{\"step\": 8, \"torn";
    const auto dir = run("killed", settings);
    EXPECT_EQ(metrics_without_times(dir), metrics);
    EXPECT_EQ(consolidated(dir), state);
  }
}

TEST_F(Resume, SavesAgainWhenNothingIsLeftToDo) {
  const auto dir = run("done", {});
  const std::string state = consolidated(dir);
  run("done", {});
  EXPECT_EQ(read_metrics(dir).size(), 9U);
  EXPECT_EQ(consolidated(dir), state);
}

TEST_F(Resume, TakesTheOlderSlotWhenTheNewerIsTorn) {
  const auto whole = run("whole", {});
  const std::string metrics = metrics_without_times(whole);
  const auto dir = run("torn", {"checkpoint.interval=3", "checkpoint.async=false", "run.stop_after_step=7", "faults=[{kind=\"torn_write\", step=7}]"});
  run("torn", {});
  EXPECT_EQ(metrics_without_times(dir), metrics);
}

TEST_F(Resume, StartsAFreshRunFromWeightsAlone) {
  const auto first = run("first", {"checkpoint.persistent_interval=4"});
  const auto persistent = first / "checkpoints" / "persistent" / "step-4";
  const auto second = run("second", {"run.init_from=" + persistent.string()});
  const auto lines = read_metrics(second);
  EXPECT_EQ(lines[0]["step"], 1);
  EXPECT_EQ(lines[0]["first_sample"], 0);
  // Step 5 of the first run began with the same weights; that of the second run sees other rows, so only the weights are compared: with lr 0 they stay.
  const auto frozen = run("frozen", {"run.init_from=" + persistent.string(), "optimizer.lr=0", "optimizer.lr_min=0", "run.steps=1"});
  (void)consolidated(frozen);
  const auto weights = read_tensors(frozen / "consolidated.safetensors");
  const ProgramResult result = run_optimus({"checkpoint", "consolidate", persistent.string(), "--out", (folder_ / "p.safetensors").string()});
  ASSERT_EQ(result.code, 0) << result.err;
  for (const auto& [name, values] : read_tensors(folder_ / "p.safetensors")) EXPECT_EQ(weights.at(name), values) << name;
}

}  // namespace
}  // namespace optimus::test
