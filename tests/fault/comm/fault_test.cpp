// Runs under the MPI starter in which one rank goes wrong: all ranks end, soon, with an exit code that says so.

#include <gtest/gtest.h>

#include <string>

#include "tests/support/fault_program.hpp"

namespace optimus {
namespace {

using test::Outcome;

Outcome run(const std::string& fault, int ranks) { return test::run_fault_program(fault, ranks); }

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(FaultsOfRanks, ARunWithoutFaultEndsWithZero) {
  const Outcome outcome = run("none", 3);
  EXPECT_EQ(outcome.code, 0) << outcome.output;
}

TEST(FaultsOfRanks, AnErrorOnOneRankIsThrownOnAllAtOnceNamingIt) {
  const Outcome outcome = run("throw", 3);
  EXPECT_EQ(outcome.code, 3) << outcome.output;
  EXPECT_EQ(count_of(outcome.output, "ends with 3: [data] shard 7 is torn>"), 1) << outcome.output;
  EXPECT_EQ(count_of(outcome.output, "ends with 3: rank 1: [data] shard 7 is torn>"), 2) << outcome.output;
  EXPECT_LT(outcome.seconds, 20);  // far below the time limit of 30 s
}

TEST(FaultsOfRanks, TheSameErrorOnAllRanksEndsQuietly) {
  const Outcome outcome = run("throw_all", 3);
  EXPECT_EQ(outcome.code, 10) << outcome.output;
  EXPECT_EQ(outcome.output.find("MPI_ABORT"), std::string::npos) << outcome.output;
}

TEST(FaultsOfRanks, AStuckRankIsNamedAndTheRunEnds) {
  const Outcome outcome = run("hang", 3);
  EXPECT_EQ(outcome.code, 11) << outcome.output;
  EXPECT_GE(count_of(outcome.output, "at step 3: no progress"), 1) << outcome.output;
  EXPECT_GE(count_of(outcome.output, "rank 1; that rank is stuck"), 1) << outcome.output;
  EXPECT_LT(outcome.seconds, 20);
}

TEST(FaultsOfRanks, ARankThatIsStuckBeforeTheStartOfMpiEndsTheRunToo) {
  const Outcome outcome = run("hang_at_start", 3);
  EXPECT_EQ(outcome.code, 11) << outcome.output;
  EXPECT_GE(count_of(outcome.output, "the start of MPI: a rank, a node or the network"), 1) << outcome.output;
  EXPECT_LT(outcome.seconds, 20);
}

TEST(FaultsOfRanks, ARankThatIsStuckBehindTheLastStepEndsTheRunToo) {
  const Outcome outcome = run("hang_at_end", 3);
  EXPECT_EQ(outcome.code, 11) << outcome.output;
  EXPECT_GE(count_of(outcome.output, "the end of MPI: one rank is stuck"), 1) << outcome.output;
  EXPECT_LT(outcome.seconds, 20);
}

TEST(FaultsOfRanks, ADeadRankEndsTheRun) {
  const Outcome outcome = run("die", 3);
  EXPECT_NE(outcome.code, 0) << outcome.output;
  EXPECT_LT(outcome.seconds, 20);
}

}  // namespace
}  // namespace optimus
