// What people and machines do to a run folder: nothing that was saved is lost over it.
#include <fstream>

#include "support.hpp"

namespace optimus::test {
namespace {

class Mishaps : public Pretrain {
 protected:
  void SetUp() override {
    Pretrain::SetUp();
    checkpoints_ = run_ / "checkpoints";
    const auto result = run({"run.stop_after_step=4", "checkpoint.interval=2"});  // slot-0: step 2, slot-1: step 4
    ASSERT_EQ(result.code, 0) << result.err;
  }
  [[nodiscard]] ProgramResult go_on(const std::string& step) const { return run({"run.stop_after_step=" + step}); }
  void expect_slot(const char* slot, const std::string& step) const {
    const auto result = run_optimus({"checkpoint", "verify", (checkpoints_ / slot).string()});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_HAS(result.out + result.err, "step " + step);
  }
  std::filesystem::path checkpoints_;
};

TEST_F(Mishaps, ANoteInASlotDoesNotKeepTheRunFromSaving) {
  std::ofstream(checkpoints_ / "slot-0" / "README.txt") << "a good one";
  const auto result = go_on("5");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_HAS(result.err, "set-aside-1");
  expect_slot("slot-0", "5");
  expect_slot("slot-0.set-aside-1", "2");
  EXPECT_TRUE(std::filesystem::exists(checkpoints_ / "slot-0.set-aside-1" / "README.txt"));
}

TEST_F(Mishaps, ADamagedSlotIsWrittenBeforeTheOnlyGoodOne) {
  std::fstream(checkpoints_ / "slot-1" / "rank-00000-0.safetensors", std::ios::in | std::ios::out | std::ios::binary).seekp(-1, std::ios::end).put('\x55');
  const auto result = go_on("3");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_HAS(result.err, "going on from " + (checkpoints_ / "slot-0").string());
  expect_slot("slot-0", "2");
  expect_slot("slot-1", "3");
}

TEST_F(Mishaps, LatestThatCannotBeWrittenCostsNoCheckpoint) {
  std::filesystem::remove(checkpoints_ / "latest");
  std::filesystem::create_directory(checkpoints_ / "latest");
  const auto result = go_on("5");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_HAS(result.err, "checkpoints/latest does not name it");
  expect_slot("slot-0", "5");
}

TEST_F(Mishaps, MetricsStayWhenTheCheckpointsAreGone) {
  std::filesystem::remove_all(checkpoints_);
  const auto result = go_on("3");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_HAS(result.err, "metrics.replaced.jsonl");
  EXPECT_EQ(read_metrics(run_).size(), 3U);
  std::filesystem::rename(run_ / "metrics.replaced.jsonl", run_ / "metrics.jsonl");
  EXPECT_EQ(read_metrics(run_).size(), 4U) << "what the run before had";
}

}  // namespace
}  // namespace optimus::test
