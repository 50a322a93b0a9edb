#include "optimus/comm/local_reduce.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace optimus {
namespace {

template <class T>
std::vector<T> reduce(const std::vector<std::vector<T>>& inputs, Reduce reduce) {
  std::vector<const std::byte*> sources;
  for (const auto& input : inputs) sources.push_back(reinterpret_cast<const std::byte*>(input.data()));
  std::vector<T> output(inputs[0].size());
  reduce_in_order(sources, dtype_of<T>, reduce, static_cast<Index>(output.size()), reinterpret_cast<std::byte*>(output.data()));
  return output;
}

TEST(LocalReduce, AddsFromLeftToRight) {
  // 1 is lost beside 2^24 unless it comes after the two large numbers have cancelled.
  EXPECT_EQ(reduce<float>({{16777216.0F}, {-16777216.0F}, {1.0F}}, Reduce::kSum), std::vector<float>{1.0F});
  EXPECT_EQ(reduce<float>({{1.0F}, {16777216.0F}, {-16777216.0F}}, Reduce::kSum), std::vector<float>{0.0F});
}

TEST(LocalReduce, RoundsBfloat16SumsOnce) {
  // Each half step is lost when bf16 is rounded after every addition; four of them are two whole steps.
  const BFloat16 one(1.0F), half_step(0.00390625F);
  const auto sum = reduce<BFloat16>({{one}, {half_step}, {half_step}, {half_step}, {half_step}}, Reduce::kSum);
  EXPECT_EQ(static_cast<float>(sum[0]), 1.015625F);
}

TEST(LocalReduce, KeepsTheSignOfNegativeZero) { EXPECT_TRUE(std::signbit(reduce<float>({{-0.0F}, {-0.0F}}, Reduce::kSum)[0])); }

TEST(LocalReduce, PassesNaNOnThroughMaximaAndMinima) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Reduce r : {Reduce::kMax, Reduce::kMin}) {
    EXPECT_TRUE(std::isnan(reduce<double>({{nan}, {1.0}}, r)[0]));
    EXPECT_TRUE(std::isnan(reduce<double>({{1.0}, {nan}}, r)[0]));
  }
}

TEST(LocalReduce, WrapsIntegerSums) {
  const auto largest = std::numeric_limits<std::int32_t>::max();
  EXPECT_EQ(reduce<std::int32_t>({{largest}, {1}}, Reduce::kSum), std::vector<std::int32_t>{std::numeric_limits<std::int32_t>::min()});
}

TEST(LocalReduce, TreatsElementsBeyondOneBlockAlike) {
  const std::size_t count = 2048 * 2 + 3;
  std::vector<std::int64_t> a(count), b(count), wanted(count);
  for (std::size_t i = 0; i < count; ++i) {
    a[i] = static_cast<std::int64_t>(i);
    b[i] = static_cast<std::int64_t>(1000 * i);
    wanted[i] = a[i] + b[i];
  }
  EXPECT_EQ(reduce<std::int64_t>({a, b}, Reduce::kSum), wanted);
}

TEST(LocalReduce, RefusesTypesThatOnlyStore) {
  EXPECT_THROW(check_reducible(DType::kF16), UnsupportedError);
  EXPECT_THROW(reduce<std::uint16_t>({{1}, {2}}, Reduce::kSum), UnsupportedError);
}

}  // namespace
}  // namespace optimus
