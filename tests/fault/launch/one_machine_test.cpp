#include <fstream>

#include "support.hpp"

namespace optimus::test {
namespace {

const std::vector<std::string> kTwoRanks = {"--ranks", "2"};

TEST_F(Supervised, ARunWhoseRankIsKilledGoesOnBitForBit) {
  start(kTwoRanks);
  wait_for_step(10);
  ASSERT_EQ(ranks().size(), 2U);
  ::kill(ranks().back(), SIGKILL);
  EXPECT_EQ(end(), 0) << err();
  EXPECT_HAS(err(), "was ended by signal 9");
  EXPECT_HAS(err(), "restart 1 of at most");
  expect_same_as_undisturbed();
}

TEST_F(Supervised, ARunWhoseRankIsStoppedGoesOnWithinItsLimits) {
  start(kTwoRanks);
  wait_for_step(10);
  const auto before = ranks();
  ASSERT_EQ(before.size(), 2U);
  ::kill(before.back(), SIGSTOP);
  const Timer timer;
  wait_for([&] { return ::kill(before.back(), 0) != 0; });
  EXPECT_LT(timer.seconds(), kWatchdog_s + 10 + 5) << "and some for a loaded machine";
  EXPECT_EQ(end(), 0) << err();
  expect_same_as_undisturbed();
}

TEST_F(Supervised, NotANumberIsHealedFromTheLastCheckpoint) {
  start(kTwoRanks, {"faults=[{kind=\"nan\", rank=1, step=20}]"});
  EXPECT_EQ(end(), 0) << err();
  EXPECT_HAS(err(), "nan on rank 1 (localhost) in step 20");
  EXPECT_HAS(err(), "passed its examination and is used again");
  expect_same_as_undisturbed();
}

TEST_F(Supervised, ASignalSavesAndTheSameCommandGoesOn) {
  start(kTwoRanks, {"checkpoint.interval=1000"});
  wait_for_step(10);
  ::kill(supervisor_->pid(), SIGTERM);
  EXPECT_EQ(end(), 12) << err();
  EXPECT_LT(steps_done(), 60U);
  start(kTwoRanks, {"checkpoint.interval=1000"});
  EXPECT_EQ(end(), 0) << err();
  expect_same_as_undisturbed();
}

TEST_F(Supervised, ASecondSignalEndsTheRunAtOnceAndHarmsNothing) {
  start(kTwoRanks);
  wait_for_step(10);
  for (const pid_t rank : ranks()) ::kill(rank, SIGSTOP);  // they cannot save any more
  ::kill(supervisor_->pid(), SIGTERM);
  wait_for([this] { return err().find("asked to save and end") != std::string::npos; });
  ::kill(supervisor_->pid(), SIGTERM);
  EXPECT_EQ(end(), 128 + SIGTERM) << err();
  EXPECT_TRUE(ranks().empty());
  start(kTwoRanks);
  EXPECT_EQ(end(), 0) << err();
  expect_same_as_undisturbed();
}

TEST_F(Supervised, RanksEndWithTheirSupervisor) {
  start(kTwoRanks);
  wait_for_step(10);
  ::kill(supervisor_->pid(), SIGKILL);
  EXPECT_EQ(end(), 128 + SIGKILL);
  wait_for([this] { return ranks().empty(); });
  start(kTwoRanks);
  EXPECT_EQ(end(), 0) << err();
  expect_same_as_undisturbed();
}

}  // namespace
}  // namespace optimus::test
