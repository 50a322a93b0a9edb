#include "optimus/optim/schedule.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace optimus {
namespace {

OptimizerConfig config(const std::string& schedule, Index warmup, Index decay = 0) {
  OptimizerConfig c;
  c.lr = 1.0;
  c.lr_min = 0.2;
  c.schedule = schedule;
  c.warmup_steps = warmup;
  c.decay_steps = decay;
  return c;
}

TEST(Schedule, WarmsUpLinearlyFromLrMinToLr) {
  const auto c = config("cosine", 4);
  EXPECT_DOUBLE_EQ(learning_rate(c, 1, 12), 0.4);
  EXPECT_DOUBLE_EQ(learning_rate(c, 2, 12), 0.6);
  EXPECT_DOUBLE_EQ(learning_rate(c, 4, 12), 1.0);
}

TEST(Schedule, CosineIsHalfWayAtHalfTimeAndEndsAtLrMin) {
  const auto c = config("cosine", 4);
  EXPECT_NEAR(learning_rate(c, 8, 12), 0.6, 1e-15);
  EXPECT_NEAR(learning_rate(c, 6, 12), 0.2 + 0.8 * (1 + std::sqrt(0.5)) / 2, 1e-15);
  EXPECT_NEAR(learning_rate(c, 12, 12), 0.2, 1e-15);
}

TEST(Schedule, LinearFallsEvenly) {
  const auto c = config("linear", 0);
  EXPECT_NEAR(learning_rate(c, 1, 8), 0.9, 1e-15);
  EXPECT_NEAR(learning_rate(c, 8, 8), 0.2, 1e-15);
}

TEST(Schedule, ConstantStays) {
  const auto c = config("constant", 2);
  EXPECT_DOUBLE_EQ(learning_rate(c, 1, 8), 0.6);
  EXPECT_DOUBLE_EQ(learning_rate(c, 3, 8), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(c, 8, 8), 1.0);
}

TEST(Schedule, WsdDecaysInTheLastStepsOnly) {
  const auto c = config("wsd", 2, 4);
  EXPECT_DOUBLE_EQ(learning_rate(c, 5, 10), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(c, 6, 10), 1.0);
  EXPECT_NEAR(learning_rate(c, 8, 10), 0.6, 1e-15);
  EXPECT_NEAR(learning_rate(c, 10, 10), 0.2, 1e-15);
  EXPECT_DOUBLE_EQ(learning_rate(config("wsd", 2, 0), 10, 10), 1.0) << "without decay steps there is no decay";
}

TEST(Schedule, HoldsItsLastValuePastTheEnd) {
  for (const char* name : {"cosine", "linear", "constant", "wsd"}) {
    const auto c = config(name, 2, std::string(name) == "wsd" ? 3 : 0);
    EXPECT_EQ(learning_rate(c, 1000, 10), learning_rate(c, 10, 10)) << name;
  }
}

TEST(Schedule, SurvivesAWarmupLongerThanTheRun) {
  const auto c = config("cosine", 10);
  EXPECT_DOUBLE_EQ(learning_rate(c, 5, 5), 0.6);
  EXPECT_DOUBLE_EQ(learning_rate(c, 10, 10), 1.0);
}

TEST(Schedule, AllowsALearningRateOfZero) {
  auto c = config("constant", 0);
  c.lr = 0;
  EXPECT_EQ(learning_rate(c, 1, 5), 0.0);
}

TEST(OptimizerConfig, NamesEveryProblem) {
  OptimizerConfig c;
  c.betas = {0.9, 1.0, 0.5};
  c.decay_steps = 5;
  Problems problems;
  validate(c, problems);
  ASSERT_EQ(problems.items().size(), 3U);
  EXPECT_EQ(problems.items()[0].key, "optimizer.betas");
  EXPECT_EQ(problems.items()[2].key, "optimizer.decay_steps");
  Problems none;
  validate(OptimizerConfig{}, none);
  EXPECT_TRUE(none.empty());
}

}  // namespace
}  // namespace optimus
