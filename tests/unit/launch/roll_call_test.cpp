#include "optimus/launch/roll_call.hpp"

#include <gtest/gtest.h>

namespace optimus::launch {
namespace {

/// Of a run on two nodes, whose four ranks were seen when it began.
RollCall begun() {
  RollCall call;
  EXPECT_TRUE(call.is_due(0, 0));
  EXPECT_FALSE(call.is_nobody_left(4, 0, 2, 0, 0));
  return call;
}

TEST(RollCall, IsNotDueWithinTwiceTheLongestHarmlessSilence) {
  RollCall call = begun();
  EXPECT_FALSE(call.is_due(1.9, 1.9));
  EXPECT_TRUE(call.is_due(2, 2));
  EXPECT_FALSE(call.is_nobody_left(4, 0, 2, 2, 2));  // the step takes long, that is all
  EXPECT_FALSE(call.is_due(3.9, 3.9));
  EXPECT_TRUE(call.is_due(4, 4));
  EXPECT_FALSE(call.is_nobody_left(4, 0, 2, 4, 4));
  EXPECT_FALSE(call.is_due(7, 7));
  EXPECT_FALSE(call.is_due(0, 7.1));  // a line came after 7 s of silence
  EXPECT_FALSE(call.is_due(13.9, 21));
  EXPECT_TRUE(call.is_due(14, 21.1));
}

TEST(RollCall, BelievesThatNobodyIsLeftWhenASecondCallSaysSo) {
  RollCall call = begun();
  ASSERT_TRUE(call.is_due(2, 2));
  EXPECT_FALSE(call.is_nobody_left(0, 1, 2, 2, 2));
  EXPECT_FALSE(call.is_due(2.5, 2.5));
  EXPECT_TRUE(call.is_due(3, 3));
  EXPECT_TRUE(call.is_nobody_left(0, 1, 2, 3, 3));
}

TEST(RollCall, LeavesAStarterThatReachesAllNodesTimeToEnd) {
  RollCall call = begun();
  for (int t = 2; t < 12; ++t) {
    EXPECT_TRUE(call.is_due(t, t));
    EXPECT_FALSE(call.is_nobody_left(0, 0, 2, t, t)) << t;
  }
  EXPECT_TRUE(call.is_nobody_left(0, 0, 2, 12, 12));
}

TEST(RollCall, KnowsNothingWhenNoNodeAnswersAndForgetsWhenSomebodyIsThere) {
  RollCall call = begun();
  EXPECT_FALSE(call.is_nobody_left(0, 2, 2, 2, 2));
  EXPECT_FALSE(call.is_nobody_left(0, 1, 2, 4, 4));
  EXPECT_FALSE(call.is_nobody_left(3, 1, 2, 8, 8));
  EXPECT_FALSE(call.is_nobody_left(0, 1, 2, 16, 16));
  EXPECT_TRUE(call.is_nobody_left(0, 1, 2, 17, 17));
}

TEST(RollCall, MissesNobodyWhomItHasNotSeen) {
  RollCall call;
  for (int t = 0; t < 100; ++t) EXPECT_FALSE(call.is_nobody_left(0, 1, 2, t, t)) << t;
}

}  // namespace
}  // namespace optimus::launch
