#include "optimus/checkpoint/elements.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

namespace optimus {
namespace {

template <class T> ConstView view_of(const std::vector<T>& values, DType dtype) {
  return {reinterpret_cast<const std::byte*>(values.data()), dtype, {static_cast<Index>(values.size())}};
}
template <class T> View view_of(std::vector<T>& values, DType dtype) {
  return {reinterpret_cast<std::byte*>(values.data()), dtype, {static_cast<Index>(values.size())}};
}

// Every half value against its definition: sign * 2^(e - 15) * (1 + f / 1024), or sign * 2^-14 * f / 1024.
TEST(Elements, ConvertsEveryHalfExactly) {
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const int exponent = static_cast<int>(bits >> 10 & 0x1fU), fraction = static_cast<int>(bits & 0x3ffU);
    const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
    const float value = half_to_float(static_cast<std::uint16_t>(bits));
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(value), fraction != 0);
      EXPECT_EQ(std::isinf(value), fraction == 0);
    } else {
      const double expected = exponent == 0 ? sign * std::ldexp(fraction, -24) : sign * std::ldexp(1024 + fraction, exponent - 25);
      EXPECT_EQ(static_cast<double>(value), expected);
    }
    EXPECT_EQ(std::signbit(value), sign < 0);
  }
}

TEST(Elements, WidensBf16AndRoundsBack) {
  const std::vector<float> values{0.0F, -1.5F, 3.14159265F, 1e-40F, 65504.0F};
  std::vector<std::uint16_t> narrow(values.size());
  std::vector<float> wide(values.size());
  round_elements(view_of(values, DType::kF32), view_of(narrow, DType::kBF16));
  convert_elements(view_of(narrow, DType::kBF16), view_of(wide, DType::kF32));
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(wide[i], static_cast<float>(BFloat16(values[i])));
}

TEST(Elements, RefusesToConvertWithLoss) {
  const std::vector<float> values(3);
  std::vector<std::uint16_t> narrow(3);
  EXPECT_THROW(convert_elements(view_of(values, DType::kF32), view_of(narrow, DType::kBF16)), UnsupportedError);
  EXPECT_THROW(round_elements(view_of(values, DType::kF32), view_of(narrow, DType::kF16)), UnsupportedError);
}

}  // namespace
}  // namespace optimus
