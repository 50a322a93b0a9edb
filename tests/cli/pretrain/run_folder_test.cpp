#include <fstream>

#include "support.hpp"

namespace optimus::test {
namespace {

class RunFolder : public Pretrain {};

TEST_F(RunFolder, HoldsWhatScriptsRelyOn) {
  const auto result = run({"log.tokens_per_expert=true", "data.validation=" + data_.string(), "data.validation_interval=3", "checkpoint.persistent_interval=3",
                           "debug.check_replicas=true"});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "");
  for (const char* file :
       {"run.toml", "metrics.jsonl", "log.txt", "checkpoints/latest", "checkpoints/slot-0/manifest.json", "checkpoints/persistent/step-3/manifest.json"})
    EXPECT_TRUE(std::filesystem::exists(run_ / file)) << file;
  const auto lines = read_metrics(run_);
  ASSERT_EQ(lines.size(), 6U);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i]["step"], i + 1);
    EXPECT_EQ(lines[i]["tokens"], (i + 1) * 128);
    EXPECT_EQ(lines[i]["first_sample"], i * 8);
    EXPECT_EQ(lines[i]["epoch"], i * 8 / 30);
    EXPECT_EQ(lines[i].contains("validation_loss"), (i + 1) % 3 == 0);
    int rows = 0;
    for (const auto& expert : lines[i]["tokens_per_expert"][1]) rows += expert.get<int>();
    EXPECT_EQ(rows, 8 * 16 * 2);
  }
  EXPECT_LT(lines[5]["validation_loss"], lines[2]["validation_loss"]);
}

TEST_F(RunFolder, ItsTomlRunsAgainAsTheSameRun) {
  ASSERT_EQ(run({}).code, 0);
  const std::string first = metrics_without_times(run_);
  const auto again = run_optimus({"pretrain", (run_ / "run.toml").string(), "--set", "run.dir=" + (folder_ / "again").string()});
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(metrics_without_times(folder_ / "again"), first);
}

TEST_F(RunFolder, ValidationLossDoesNotDependOnRanksOrMicroBatch) {
  // 30 samples in pieces of 4: the last one is short.
  const std::vector<std::string> settings = {"data.validation=" + data_.string(), "data.validation_interval=1", "run.steps=1", "optimizer.lr=0",
                                             "optimizer.lr_min=0"};
  auto with = [&](const std::string& dir, const std::string& micro_batch, int ranks) {
    auto all = settings;
    all.insert(all.end(), {"run.dir=" + (folder_ / dir).string(), "batch.micro_batch=" + micro_batch});
    const auto result = run(all, ranks);
    EXPECT_EQ(result.code, 0) << result.err;
    return read_metrics(folder_ / dir).at(0)["validation_loss"].get<double>();
  };
  const double expected = with("a", "1", 0);
  EXPECT_NEAR(with("b", "4", 0), expected, 1e-6);
  EXPECT_NEAR(with("c", "4", 2), expected, 1e-6);
}

TEST_F(RunFolder, DumpsLogitsOfTheWholeGlobalBatchInOrder) {
  ASSERT_EQ(run({"run.steps=1", "debug.dump_logits_steps=[1]", "run.dir=" + (folder_ / "one").string()}).code, 0);
  const auto result = run({"run.steps=1", "debug.dump_logits_steps=[1]", "batch.micro_batch=2", "run.dir=" + (folder_ / "two").string()}, 2);
  ASSERT_EQ(result.code, 0) << result.err;
  const auto one = read_tensors(folder_ / "one/debug/logits-step-1.safetensors"), two = read_tensors(folder_ / "two/debug/logits-step-1.safetensors");
  EXPECT_EQ(one.at("logits").size(), 8U * 16 * 61);
  expect_close(two, one, 1e-5);
}

TEST_F(RunFolder, OfAnotherModelIsRefused) {
  ASSERT_EQ(run({}).code, 0);
  const std::string before = metrics_without_times(run_);
  const auto result = run({"model.hidden_size=64"});
  EXPECT_EQ(result.code, 4);
  EXPECT_HAS(result.err, "another model");
  EXPECT_HAS(result.err, "hidden_size 32 there, 64 here");
  EXPECT_EQ(metrics_without_times(run_), before);
}

TEST_F(RunFolder, WithOnlyDamagedCheckpointsIsRefused) {
  ASSERT_EQ(run({}).code, 0);
  std::ofstream(run_ / "checkpoints/slot-0/manifest.json") << "{";
  const auto result = run({});
  EXPECT_EQ(result.code, 4);
  EXPECT_HAS(result.err, "damaged");
  EXPECT_EQ(run({"run.resume=never"}).code, 0);
}

TEST_F(RunFolder, ThatCannotBeMadeEndsTheRun) {
  std::ofstream(folder_ / "file") << "";
  const auto result = run({"run.dir=" + (folder_ / "file" / "run").string()});
  EXPECT_EQ(result.code, 1);
  EXPECT_HAS(result.err, (folder_ / "file").string());
}

TEST_F(RunFolder, MayHaveFewerSamplesThanABatch) {
  const auto few = prepare_ids(fresh_folder("few"), some_ids(16 * 3 + 1, 61), 16);
  const auto result = run({"run.steps=2", "data.path=" + few.string()});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_HAS(result.err, "fewer samples");
}

}  // namespace
}  // namespace optimus::test
