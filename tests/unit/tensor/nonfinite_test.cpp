#include "optimus/tensor/nonfinite.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "optimus/base/bf16.hpp"

namespace optimus {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

template <class T> ConstView view_of(const std::vector<T>& values, DType dtype) {
  return {reinterpret_cast<const std::byte*>(values.data()), dtype, {static_cast<Index>(values.size())}};
}

template <class T> class NonFinite : public testing::Test {};
using Types = testing::Types<double, float, BFloat16>;
TYPED_TEST_SUITE(NonFinite, Types);

TYPED_TEST(NonFinite, IsFoundAtEveryPlaceAndOfBothKinds) {
  for (const Index count : {1, 7, 64, 129}) {
    std::vector<TypeParam> values(static_cast<std::size_t>(count));
    const View view(reinterpret_cast<std::byte*>(values.data()), dtype_of<TypeParam>, {count});
    for (Index i = 0; i < count; ++i) set_number(view, i, i % 2 == 0 ? 3e38 / 1.01 : -1e-30);
    EXPECT_EQ(find_nonfinite(view), NonFiniteKind::kNone) << "large and tiny numbers are numbers";
    for (Index i = 0; i < count; ++i) {
      for (const double bad : {kNan, -kNan, kInf, -kInf}) {
        set_number(view, i, bad);
        EXPECT_EQ(find_nonfinite(view), std::isnan(bad) ? NonFiniteKind::kNan : NonFiniteKind::kInf) << i;
      }
      set_number(view, i, 0);
    }
  }
}

TEST(NonFinite, IsNotInIntegersNorInNothing) {
  const std::array<std::int32_t, 2> ids = {-1, 0x7fc00000};
  EXPECT_EQ(find_nonfinite({reinterpret_cast<const std::byte*>(ids.data()), DType::kI32, {2}}), NonFiniteKind::kNone);
  EXPECT_EQ(find_nonfinite({nullptr, DType::kF32, {0}}), NonFiniteKind::kNone);
}

TEST(NonFinite, IsFoundAtItsFirstPlace) {
  std::vector<float> values(1000, std::numeric_limits<float>::max());
  EXPECT_FALSE(find_first_nonfinite(view_of(values, DType::kF32)));
  values[998] = std::numeric_limits<float>::quiet_NaN();
  values[703] = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(find_first_nonfinite(view_of(values, DType::kF32)), 703);
  const std::vector<std::uint16_t> bf16{0x3f80, 0x7f7f, 0xff80};
  EXPECT_EQ(find_first_nonfinite(view_of(bf16, DType::kBF16)), 2);
  EXPECT_EQ(find_first_nonfinite(view_of(bf16, DType::kF16)), 1);
  EXPECT_FALSE(find_first_nonfinite(view_of(bf16, DType::kU16)));
}

}  // namespace
}  // namespace optimus
