// Pipelines under the MPI starter in which one stage goes wrong: all stages end, soon, with its error and its rank.

#include <gtest/gtest.h>

#include <string>

#include "tests/support/fault_program.hpp"

namespace optimus {
namespace {

using test::Outcome;

constexpr int kRanks = 3;

Outcome run(const std::string& kind, int stage, const std::string& schedule, bool overlap) {
  return test::run_fault_program(kind + " " + std::to_string(stage) + " " + schedule + (overlap ? " on" : " off"), kRanks);
}

/// The error comes out on all ranks, on the others with the number of the one where it began.
void expect_error_on_all(const std::string& kind, int stage, const std::string& schedule, bool overlap) {
  const Outcome outcome = run(kind, stage, schedule, overlap);
  SCOPED_TRACE(kind + " on stage " + std::to_string(stage) + " of " + schedule + "\n" + outcome.output);
  EXPECT_EQ(outcome.code, 3);
  const std::string words = "[toy] micro-batch 2 is torn in " + kind;
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::string prefix = rank == stage ? "" : "rank " + std::to_string(stage) + ": ";
    EXPECT_NE(outcome.output.find("<rank " + std::to_string(rank) + " ends with 3: " + prefix + words + ">"), std::string::npos) << "rank " << rank;
  }
  EXPECT_LT(outcome.seconds, 20) << "far below the time limit of 30 s";
}

TEST(FaultsOfStages, ARunWithoutFaultEndsWithZero) {
  const Outcome outcome = run("none", 0, "1f1b", true);
  EXPECT_EQ(outcome.code, 0) << outcome.output;
}

TEST(FaultsOfStages, AnErrorInForwardEndsAllStagesNamingItsRank) {
  for (int stage = 0; stage < kRanks; ++stage) expect_error_on_all("forward", stage, "1f1b", stage != 1);
}

TEST(FaultsOfStages, AnErrorInBackwardEndsAllStagesNamingItsRank) {
  expect_error_on_all("backward", 2, "1f1b", true);
  expect_error_on_all("backward", 1, "gpipe", false);
}

TEST(FaultsOfStages, AnErrorInEitherPartOfABackwardEndsAllStagesNamingItsRank) {
  expect_error_on_all("input", 1, "zero_bubble", true);
  expect_error_on_all("weight", 0, "zero_bubble", true);
}

TEST(FaultsOfStages, AStuckStageIsNamedAndTheRunEnds) {
  const Outcome outcome = run("hang", 1, "1f1b", true);
  EXPECT_EQ(outcome.code, 11) << outcome.output;
  EXPECT_NE(outcome.output.find("at step 3: no progress"), std::string::npos) << outcome.output;
  EXPECT_NE(outcome.output.find("rank 1; that rank is stuck"), std::string::npos) << outcome.output;
  EXPECT_LT(outcome.seconds, 20);
}

}  // namespace
}  // namespace optimus
