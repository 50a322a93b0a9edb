#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "optimus/eval/generate.hpp"

namespace optimus {
namespace {

const std::vector<float> kLogits = {0.0F, std::log(6.0F), std::log(3.0F), 0.0F};  // probabilities 1/11, 6/11, 3/11, 1/11

TEST(Sampling, TemperatureZeroTakesTheLowestOfTheBest) {
  const std::vector<float> logits = {1.0F, 5.0F, 5.0F};
  EXPECT_EQ(sample_token(logits, {.temperature = 0}, 0.99), 1);
}

TEST(Sampling, FollowsTheProbabilities) {
  const SamplingOptions options{.temperature = 1.0};
  EXPECT_EQ(sample_token(kLogits, options, 0.0), 1);
  EXPECT_EQ(sample_token(kLogits, options, 6.0 / 11 - 1e-6), 1);
  EXPECT_EQ(sample_token(kLogits, options, 6.0 / 11 + 1e-6), 2);
  EXPECT_EQ(sample_token(kLogits, options, 9.0 / 11 + 1e-6), 0);
  EXPECT_EQ(sample_token(kLogits, options, 10.0 / 11 + 1e-6), 3);
  EXPECT_EQ(sample_token(kLogits, options, std::nextafter(1.0, 0.0)), 3);
}

TEST(Sampling, TopKKeepsTheMostLikely) {
  EXPECT_EQ(sample_token(kLogits, {.temperature = 1.0, .top_k = 2}, 0.999), 2);
  EXPECT_EQ(sample_token(kLogits, {.temperature = 1.0, .top_k = 1}, 0.999), 1);
}

TEST(Sampling, TopPKeepsTheFewestThatReachIt) {
  EXPECT_EQ(sample_token(kLogits, {.temperature = 1.0, .top_p = 0.5}, 0.999), 1);
  EXPECT_EQ(sample_token(kLogits, {.temperature = 1.0, .top_p = 0.6}, 0.999), 2);
  EXPECT_EQ(sample_token(kLogits, {.temperature = 1.0, .top_p = 0.0}, 0.999), 1);
}

TEST(Sampling, TemperatureSharpens) {
  // At temperature 1/2 the probabilities are squared: 36 of 47 for the best.
  EXPECT_EQ(sample_token(kLogits, {.temperature = 0.5}, 36.0 / 47 - 1e-6), 1);
  EXPECT_EQ(sample_token(kLogits, {.temperature = 0.5}, 36.0 / 47 + 1e-6), 2);
}

}  // namespace
}  // namespace optimus
