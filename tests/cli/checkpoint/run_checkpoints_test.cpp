// The checkpoints of a run as a user meets them: moved between layouts, damaged, tidied up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "optimus/base/file.hpp"
#include "tests/support/cli_testing.hpp"

namespace optimus::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class RunCheckpointsCommand : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fresh_folder();
    config_ = write_toy_config(folder_, prepare_ids(folder_, some_ids(16 * 13 + 1, 61), 16, {"--shard-tokens", "48"}));
    run_ = folder_ / "run";
  }
  ProgramResult pretrain(const std::vector<std::string>& settings, int ranks = 0) {
    std::vector<std::string> args = {"pretrain", config_.string()};
    for (const std::string& setting : settings) args.insert(args.end(), {"--set", setting});
    const ProgramResult result = run_optimus(args, ranks);
    EXPECT_EQ(result.code, 0) << result.err;
    return result;
  }
  [[nodiscard]] std::vector<std::string> persistent_names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(run_ / "checkpoints" / "persistent")) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }
  fs::path folder_, config_, run_;
};

TEST_F(RunCheckpointsCommand, ARunMovesBetweenLayoutsWithTheSameState) {
  pretrain({"run.steps=3"});
  const std::string state = consolidated(run_);
  // Nothing is left to do, so each only loads and saves.
  pretrain({"run.steps=3", "parallel.tp=2"}, 2);
  EXPECT_EQ(consolidated(run_), state) << "tp 2";
  pretrain({"run.steps=3", "parallel.pp=2"}, 2);
  EXPECT_EQ(consolidated(run_), state) << "pp 2";
  pretrain({"run.steps=3", "parallel.ep=2"}, 2);
  EXPECT_EQ(consolidated(run_), state) << "ep 2";
  EXPECT_THAT(run_optimus({"checkpoint", "inspect", run_.string()}).out, HasSubstr("2 ranks: dp 1, pp 1, ep 2, tp 1"));
}

TEST_F(RunCheckpointsCommand, AnotherGlobalBatchGoesOnWithTheNextSample) {
  pretrain({"run.steps=3"});
  pretrain({"run.steps=5", "batch.global_batch=6"}, 2);
  std::vector<Index> first;
  for (const auto& line : read_metrics(run_)) first.push_back(line["first_sample"].get<Index>());
  EXPECT_EQ(first, (std::vector<Index>{0, 8, 16, 24, 30}));
  EXPECT_EQ(read_metrics(run_).back()["tokens"], 16 * 36);
}

TEST_F(RunCheckpointsCommand, ADamagedCheckpointIsNamedAndTheOneBeforeIsUsed) {
  pretrain({"checkpoint.interval=2"});
  const std::string metrics = metrics_without_times(run_), state = consolidated(run_);
  // The last of step 6 stands in slot-0, after those of steps 2 and 4.
  const fs::path file = run_ / "checkpoints" / "slot-0" / "rank-00000-0.safetensors";
  std::string bytes = read_file(file);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  write_file_atomically(file, bytes);
  const ProgramResult result = pretrain({"checkpoint.interval=2"});
  EXPECT_THAT(result.err, AllOf(HasSubstr("cannot be used, going on from"), HasSubstr(file.string()), HasSubstr("tensor "), HasSubstr("is altered (bytes "),
                                HasSubstr("at step 4")));
  EXPECT_EQ(metrics_without_times(run_), metrics);
  EXPECT_EQ(consolidated(run_), state);
}

TEST_F(RunCheckpointsCommand, OldPersistentOnesGoAsConfigured) {
  const std::vector<std::string> keep = {"checkpoint.persistent_interval=1", "checkpoint.keep_last=2", "checkpoint.keep_every=3"};
  const ProgramResult result = pretrain(keep, 2);
  EXPECT_EQ(persistent_names(), (std::vector<std::string>{"step-3", "step-5", "step-6"}));
  EXPECT_THAT(result.err, HasSubstr("removed the weights of step 4"));
  // A run that starts anew in the same folder removes none of the earlier run that are ahead of it.
  pretrain({"run.resume=never", "run.stop_after_step=4", "checkpoint.persistent_interval=1", "checkpoint.keep_last=1", "checkpoint.async=false"});
  EXPECT_EQ(persistent_names(), (std::vector<std::string>{"step-4", "step-5", "step-6"}));
  for (const std::string& name : persistent_names())
    EXPECT_EQ(run_optimus({"checkpoint", "verify", (run_ / "checkpoints" / "persistent" / name).string()}).code, 0) << name;
}

TEST_F(RunCheckpointsCommand, KeepEveryAloneIsAMistake) {
  const ProgramResult result = run_optimus({"pretrain", config_.string(), "--set", "checkpoint.keep_every=3"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("checkpoint.keep_every"), HasSubstr("checkpoint.keep_last")));
}

}  // namespace
}  // namespace optimus::test
