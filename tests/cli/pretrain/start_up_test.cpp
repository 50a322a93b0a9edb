// Ranks that were not started alike, or in a number that cannot be.

#include <fstream>

#include "support.hpp"

namespace optimus::test {
namespace {

class StartUp : public Pretrain {};

TEST_F(StartUp, RanksWithOtherSettingsEndTheRunAndAreNamed) {
  const auto result = run_optimus_ranks({{args({"batch.global_batch=6", "optimizer.lr=1e-3"})},
                                         {args({"batch.global_batch=6", "optimizer.lr=2e-3"})},
                                         {args({"batch.global_batch=6", "optimizer.lr=1e-3"})}});
  EXPECT_EQ(result.code, 2);
  EXPECT_HAS(result.err, "rank 1 has another configuration than rank 0 and 1 more. On rank 1: [optimizer] expected \"lr = 0.001\", found \"lr = 0.002\"");
  EXPECT_FALSE(std::filesystem::exists(run_));
}

TEST_F(StartUp, ALayoutThatOneRankSeesDifferentlyHangsNobody) {
  // The layout decides which groups are made: without agreement ranks would wait in different ones.
  const auto result = run_optimus_ranks({{args({"batch.global_batch=8"})}, {args({"batch.global_batch=8", "parallel.order=pp-dp-ep-tp"})}});
  EXPECT_EQ(result.code, 2);
  EXPECT_HAS(result.err, "[parallel] expected \"order = \"dp-pp-ep-tp\"\", found \"order = \"pp-dp-ep-tp\"\"");
}

TEST_F(StartUp, AConfigurationThatIsWrongOnOneRankNamesIt) {
  const auto result = run_optimus_ranks({{args({})}, {args({"batch.micro_batch=3"})}});
  EXPECT_EQ(result.code, 2);
  EXPECT_HAS(result.err, "rank 1: ");
  EXPECT_HAS(result.err, "batch.global_batch");
}

TEST_F(StartUp, RanksWithOtherCommandsAreNamed) {
  const auto result = run_optimus_ranks({{args({})}, {args({}, {"--dry-run"})}});
  EXPECT_EQ(result.code, 2);
  EXPECT_HAS(result.err, "rank 1 has another build or command than rank 0. On rank 1: expected \"command pretrain\", found \"command pretrain --dry-run\"");
}

TEST_F(StartUp, RanksOfAnotherBuildAreNamed) {
  const auto other = folder_ / "optimus_of_another_build";
  std::filesystem::copy_file(optimus_program(), other);
  std::ofstream(other, std::ios::app | std::ios::binary) << "x";
  const auto result = run_optimus_ranks({{args({})}, {args({}), other}});
  EXPECT_EQ(result.code, 2);
  EXPECT_HAS(result.err, "rank 1 has another build or command than rank 0. On rank 1: expected \"program ");
}

TEST_F(StartUp, ALimitThatIsNoNumberIsRefused) {
  for (const std::string limit : {"soon", "0", "-5", "nan"}) {
    const auto result = run_optimus(args({}), 2, "OPTIMUS_START_LIMIT_S=" + limit);
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_HAS(result.err, "the variable OPTIMUS_START_LIMIT_S: must be a number, 0.01 or more");
  }
}

TEST_F(StartUp, LimitsWithoutEndWaitWithoutEnd) {
  const auto result = run_optimus(args({"fault_tolerance.watchdog_s=1e300"}), 2, "OPTIMUS_START_LIMIT_S=1e300");
  EXPECT_EQ(result.code, 0) << result.err;
}

TEST_F(StartUp, ARankCountThatDoesNotFitIsRefusedWithAllReasons) {
  const auto result = run({"parallel.tp=4", "parallel.pp=2", "model.hidden_size=36", "model.num_attention_heads=6", "optimizer.lr=-1"}, 3);
  EXPECT_EQ(result.code, 2);
  EXPECT_HAS(result.err, "= 8 does not divide the world of 3 ranks");
  EXPECT_HAS(result.err, "optimizer.lr");
  EXPECT_HAS(result.err, "num_attention_heads 6 cannot be divided over 4 ranks");
  EXPECT_FALSE(std::filesystem::exists(run_));
}

}  // namespace
}  // namespace optimus::test
