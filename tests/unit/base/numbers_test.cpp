#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "optimus/base/counted.hpp"
#include "optimus/base/dtype.hpp"
#include "optimus/base/index.hpp"

namespace optimus {
namespace {

float rounded(float value) { return static_cast<float>(BFloat16(value)); }
float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

TEST(Counted, SaysOneThingAndManyThings) {
  EXPECT_EQ(counted(1, "rank"), "1 rank");
  EXPECT_EQ(counted(0, "rank"), "0 ranks");
  EXPECT_EQ(counted(std::size_t{2}, "input file"), "2 input files");
  EXPECT_EQ(counted(1, "process"), "1 process");
  EXPECT_EQ(counted(3, "process"), "3 processes");
  EXPECT_EQ(counted(3, "micro-batch"), "3 micro-batches");
}

TEST(BFloat16, KeepsWhatFits) {
  for (const float value : {0.0F, 1.0F, -2.5F, 0x1p-126F, 0x1.fep127F}) EXPECT_EQ(rounded(value), value);
  EXPECT_TRUE(std::signbit(rounded(-0.0F)));
  EXPECT_EQ(rounded(from_bits(0x00010000)), from_bits(0x00010000));  // the smallest denormal
}

TEST(BFloat16, RoundsToNearestAndTiesToEven) {
  EXPECT_EQ(BFloat16(from_bits(0x3f808000)).bits, 0x3f80);  // half way above an even number: down
  EXPECT_EQ(BFloat16(from_bits(0x3f818000)).bits, 0x3f82);  // half way above an odd one: up
  EXPECT_EQ(BFloat16(from_bits(0x3f808001)).bits, 0x3f81);
  EXPECT_EQ(BFloat16(from_bits(0x3f807fff)).bits, 0x3f80);
  EXPECT_EQ(BFloat16(from_bits(0xbf818000)).bits, 0xbf82);  // the same below zero
}

TEST(BFloat16, OverflowsToInfinity) {
  EXPECT_EQ(rounded(std::numeric_limits<float>::max()), std::numeric_limits<float>::infinity());
  EXPECT_EQ(rounded(-std::numeric_limits<float>::infinity()), -std::numeric_limits<float>::infinity());
}

// The lowest payload bits of a NaN are cut off: without care an infinity would be left.
TEST(BFloat16, KeepsEveryNanANan) {
  for (const std::uint32_t bits : {0x7fc00000U, 0x7f800001U, 0xff800001U, 0x7fffffffU, 0xffffffffU}) {
    EXPECT_TRUE(std::isnan(rounded(from_bits(bits)))) << std::hex << bits;
  }
}

TEST(BFloat16, EqualsTheNearestOfTheTwoNeighboursEverywhere) {
  for (std::uint64_t bits = 0; bits < 0x7f7f0000U; bits += 9973) {
    const float value = from_bits(static_cast<std::uint32_t>(bits));
    const auto low = static_cast<std::uint32_t>(bits) & 0xffff0000U;
    const double below = static_cast<double>(value) - from_bits(low), above = static_cast<double>(from_bits(low + 0x10000U)) - value;
    const std::uint32_t nearest = below < above || (below == above && (low >> 16) % 2 == 0) ? low : low + 0x10000U;
    ASSERT_EQ(std::uint32_t{BFloat16(value).bits}, nearest >> 16) << std::hex << bits;
  }
}

TEST(DType, TellsBytesAndNames) {
  EXPECT_EQ(dtype_bytes(DType::kF64), 8);
  EXPECT_EQ(dtype_bytes(DType::kI64), 8);
  EXPECT_EQ(dtype_bytes(DType::kF32), 4);
  EXPECT_EQ(dtype_bytes(DType::kU32), 4);
  EXPECT_EQ(dtype_bytes(DType::kBF16), 2);
  EXPECT_EQ(dtype_bytes(DType::kF16), 2);
  EXPECT_EQ(dtype_bytes(DType::kU16), 2);
  EXPECT_EQ(dtype_bytes(DType::kU8), 1);
  EXPECT_EQ(dtype_name(DType::kBF16), "bf16");
  EXPECT_EQ(dtype_name(DType::kI32), "i32");
  EXPECT_EQ(dtype_of<double>, DType::kF64);
  EXPECT_EQ(dtype_of<BFloat16>, DType::kBF16);
  EXPECT_EQ(dtype_of<std::int32_t>, DType::kI32);
}

TEST(CheckedArithmetic, FailsInsteadOfWrapping) {
  constexpr Index kMax = std::numeric_limits<Index>::max();
  EXPECT_EQ(checked_mul(Index{1} << 31, Index{1} << 31), Index{1} << 62);
  EXPECT_THROW((void)checked_mul(Index{1} << 32, Index{1} << 31), InternalError);
  EXPECT_EQ(checked_add(kMax - 1, 1), kMax);
  EXPECT_THROW((void)checked_add(kMax, 1), InternalError);
  EXPECT_THROW((void)checked_add(-kMax, -2), InternalError);
}

TEST(Narrow, KeepsTheValueOrFails) {
  EXPECT_EQ(narrow<int>(Index{-5}), -5);
  EXPECT_EQ(narrow<int>(Index{std::numeric_limits<int>::max()}), std::numeric_limits<int>::max());
  EXPECT_THROW((void)narrow<int>(Index{1} << 31), InternalError);
  EXPECT_THROW((void)narrow<std::uint64_t>(Index{-1}), InternalError);
  EXPECT_THROW((void)narrow<Index>(std::uint64_t{1} << 63), InternalError);
  EXPECT_THROW((void)narrow<std::uint8_t>(256), InternalError);
}

TEST(Rounding, DividesUpwards) {
  EXPECT_EQ(ceil_div(0, 4), 0);
  EXPECT_EQ(ceil_div(1, 4), 1);
  EXPECT_EQ(ceil_div(4, 4), 1);
  EXPECT_EQ(ceil_div(5, 4), 2);
  EXPECT_EQ(ceil_div(std::numeric_limits<Index>::max(), 2), Index{1} << 62);
  EXPECT_EQ(round_up(0, 64), 0);
  EXPECT_EQ(round_up(65, 64), 128);
}

}  // namespace
}  // namespace optimus
