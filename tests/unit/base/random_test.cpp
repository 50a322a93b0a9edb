#include "optimus/base/random.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace optimus {
namespace {

using Words = std::array<std::uint32_t, 4>;

// The known answers that the authors of Philox publish with it.
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}), (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}), (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(RandomStream, GivesTheSameValueWhateverTheOrder) {
  const RandomStream forwards(7, "init", "a"), backwards(7, "init", "a");
  std::vector<std::uint64_t> first, second;
  for (Index i = 0; i < 9; ++i) first.push_back(forwards.bits(i));
  for (Index i = 8; i >= 0; --i) second.insert(second.begin(), backwards.bits(i));
  EXPECT_EQ(first, second);
  EXPECT_EQ(std::set(first.begin(), first.end()).size(), 9U);
}

// Weights and sample orders follow from these: a change here makes every old run irreproducible.
TEST(RandomStream, KeepsItsValuesForEver) {
  const RandomStream stream(1, "init", "model.embed_tokens.weight");
  EXPECT_EQ(stream.bits(0), 3667018618946549261U);
  EXPECT_EQ(stream.bits(1), 9274104486480771488U);
  EXPECT_EQ(stream.bits((Index{1} << 40) + 1), 9721205912051562921U);
}

TEST(RandomStream, DiffersBySeedPurposeAndName) {
  std::set<std::uint64_t> values;
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 63}) {
    for (const char* purpose : {"init", "shuffle"}) {
      for (const char* name : {"", "a", "b"}) values.insert(RandomStream(seed, purpose, name).bits(0));
    }
  }
  EXPECT_EQ(values.size(), 18U);
  EXPECT_NE(RandomStream(0, "ab", "c").bits(0), RandomStream(0, "a", "bc").bits(0));
}

TEST(RandomStream, UniformFillsTheUnitInterval) {
  const RandomStream stream(3, "test");
  double sum = 0, sum_of_squares = 0;
  constexpr Index kCount = 20000;
  for (Index i = 0; i < kCount; ++i) {
    const double value = stream.uniform(i);
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    sum += value;
    sum_of_squares += value * value;
  }
  EXPECT_NEAR(sum / kCount, 0.5, 0.01);  // five standard deviations of the mean
  EXPECT_NEAR(sum_of_squares / kCount, 1.0 / 3.0, 0.01);
}

TEST(RandomStream, NormalHasUnitVarianceAndNormalTails) {
  const RandomStream stream(3, "test");
  double sum = 0, sum_of_squares = 0;
  Index beyond_two = 0;
  constexpr Index kCount = 40000;
  for (Index i = 0; i < kCount; ++i) {
    const double value = stream.normal(i);
    sum += value;
    sum_of_squares += value * value;
    beyond_two += std::abs(value) > 2 ? 1 : 0;
  }
  EXPECT_NEAR(sum / kCount, 0.0, 0.025);
  EXPECT_NEAR(sum_of_squares / kCount, 1.0, 0.036);
  EXPECT_NEAR(static_cast<double>(beyond_two) / kCount, 0.0455, 0.0052);
}

TEST(RandomStream, FillNormalEqualsSingleNormalsAtAnyOffset) {
  const RandomStream stream(5, "init", "x");
  for (const Index begin : {0, 1, 2, 7}) {
    for (const std::size_t count : {0U, 1U, 2U, 3U, 8U}) {
      std::vector<float> values(count);
      stream.fill_normal(begin, values);
      for (std::size_t j = 0; j < count; ++j) EXPECT_EQ(values[j], stream.normal(begin + static_cast<Index>(j)));
    }
  }
}

TEST(RandomStream, BelowReachesEveryValueAndNoOther) {
  const RandomStream stream(11, "shuffle");
  std::vector<Index> counts(7);
  for (Index i = 0; i < 7000; ++i) {
    const std::uint64_t value = stream.below(i, 7);
    ASSERT_LT(value, 7U);
    ++counts[value];
  }
  for (const Index count : counts) EXPECT_NEAR(static_cast<double>(count), 1000.0, 150.0);
  EXPECT_EQ(stream.below(0, 1), 0U);
}

}  // namespace
}  // namespace optimus
