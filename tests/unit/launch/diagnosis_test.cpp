#include "optimus/launch/diagnosis.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace optimus::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::vector<UsedNode> kNodes = {{"n1", "n1.cluster"}, {"10.0.0.2", "n2"}};  // of two ranks each

TEST(Diagnosis, BlamesTheNodeThatAFailureNames) {
  const Diagnosis d =
      diagnose({.code = 10, .last_step = 6, .failures = {{.step = 7, .rank = 2, .host = "n2", .kind = "nan", .message = "nan loss"}}}, kNodes, 2);
  EXPECT_EQ(d.code, ExitCode::kNonFinite);
  EXPECT_EQ(d.step, 7);
  EXPECT_THAT(d.blamed, ElementsAre("10.0.0.2"));
  EXPECT_THAT(d.text, HasSubstr("nan on rank 2 (10.0.0.2) in step 7: nan loss"));
}

TEST(Diagnosis, BlamesEveryNodeWithNumbersThatAreNone) {
  const Diagnosis d =
      diagnose({.code = 10, .failures = {{.step = 7, .rank = 0, .host = "n1", .kind = "nan"}, {.step = 7, .rank = 3, .host = "n2", .kind = "inf"}}}, kNodes, 2);
  EXPECT_THAT(d.blamed, ElementsAre("n1", "10.0.0.2"));
}

TEST(Diagnosis, GoesByTheRankWhereNamesDoNotTell) {
  const std::vector<UsedNode> same = {{"x", "box"}, {"y", "box"}};
  EXPECT_THAT(diagnose({.code = 11, .failures = {{.rank = 3, .host = "box", .kind = "hang"}}}, same, 2).blamed, ElementsAre("y"));
  EXPECT_THAT(diagnose({.code = 11, .failures = {{.rank = 1, .host = "unknown", .kind = "hang"}}}, kNodes, 2).blamed, ElementsAre("n1"));
  EXPECT_THAT(diagnose({.code = 11, .failures = {{.rank = 9, .host = "unknown", .kind = "hang"}}}, kNodes, 2).blamed, ElementsAre());
}

TEST(Diagnosis, BelievesTheStarterThatARankWasKilled) {
  const Diagnosis d = diagnose(
      {.code = 137, .last_step = 4, .failures = {{.step = 5, .rank = 0, .host = "n1", .kind = "lost"}}, .report = {.rank = 2, .host = "n2", .signal = 9}},
      kNodes, 2);
  EXPECT_EQ(d.code, ExitCode::kLostRank);
  EXPECT_EQ(d.step, 5);
  EXPECT_THAT(d.blamed, ElementsAre("10.0.0.2"));
  EXPECT_THAT(d.text, HasSubstr("rank 2 on 10.0.0.2 was ended by signal 9"));
}

TEST(Diagnosis, BlamesTheStuckRankAndNotTheOneThatWaitedForIt) {
  const Failure waited{
      .step = 7, .rank = 0, .host = "n1", .kind = "lost", .message = "[comm] no progress for 5 s, nothing came from rank 3; that rank is stuck"};
  EXPECT_THAT(diagnose({.code = 11, .failures = {waited}}, kNodes, 2).blamed, ElementsAre("10.0.0.2"));
  const Failure stuck{.step = 7, .rank = 1, .host = "n1", .kind = "hang"};
  EXPECT_EQ(diagnose({.code = 11, .failures = {waited, stuck}}, kNodes, 2).rank, 1);
}

TEST(Diagnosis, BlamesTheRankWhoseErrorRankZeroWroteDown) {
  const Diagnosis d =
      diagnose({.code = 1, .failures = {{.step = 2, .rank = 0, .host = "n1", .kind = "error", .message = "rank 3: [data] cannot read"}}}, kNodes, 2);
  EXPECT_EQ(d.rank, 3);
  EXPECT_THAT(d.blamed, ElementsAre("10.0.0.2"));
  EXPECT_EQ(d.code, ExitCode::kFailure);
}

TEST(Diagnosis, DoesNotTakeAWarningForTheCause) {
  const Diagnosis d = diagnose({.code = 1, .last_step = 3, .failures = {{.step = 2, .rank = 0, .host = "n1", .kind = "write"}}}, kNodes, 2);
  EXPECT_THAT(d.blamed, ElementsAre());
  EXPECT_EQ(d.step, 4);
  EXPECT_THAT(d.text, HasSubstr("no word about the cause"));
}

TEST(Diagnosis, BlamesNoRankThatTheSupervisorEndedItself) {
  const Diagnosis d = diagnose({.code = 137, .was_stuck = true, .report = {.rank = 0, .host = "n1", .signal = 9}}, kNodes, 2);
  EXPECT_THAT(d.blamed, ElementsAre());
  EXPECT_EQ(d.code, ExitCode::kLostRank);
}

TEST(Diagnosis, TakesAStarterThatOutlivedItsRanksForLostOnesUnlessTheyLeftWord) {
  const Diagnosis d = diagnose({.code = 1, .was_nobody_left = true, .last_step = 3}, kNodes, 2);
  EXPECT_EQ(d.code, ExitCode::kLostRank) << "whatever the starter ends with when it is told to";
  EXPECT_THAT(d.text, HasSubstr("the starter did not end by itself"));
  const Diagnosis nan = diagnose({.code = 1, .was_nobody_left = true, .failures = {{.step = 7, .rank = 2, .host = "n2", .kind = "nan"}}}, kNodes, 2);
  EXPECT_EQ(nan.code, ExitCode::kNonFinite);
  EXPECT_THAT(nan.blamed, ElementsAre("10.0.0.2"));
}

TEST(Diagnosis, KeepsTheProgramsOwnCodes) {
  for (const int code : {0, 2, 3, 4, 12}) EXPECT_EQ(static_cast<int>(diagnose({.code = code}, kNodes, 2).code), code);
  EXPECT_EQ(diagnose({.code = 139}, kNodes, 2).code, ExitCode::kLostRank);
  EXPECT_EQ(diagnose({.code = 77}, kNodes, 2).code, ExitCode::kFailure);
  EXPECT_EQ(diagnose({.code = 143, .was_stuck = true}, kNodes, 2).code, ExitCode::kLostRank);
}

}  // namespace
}  // namespace optimus::launch
