#include "optimus/tensor/view.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>

namespace optimus {
namespace {

class ViewOfTwelve : public testing::Test {
 protected:
  ViewOfTwelve() { std::iota(numbers_.begin(), numbers_.end(), 0.0F); }
  std::array<float, 12> numbers_{};
  View view_{reinterpret_cast<std::byte*>(numbers_.data()), DType::kF32, Shape{3, 4}};
};

TEST_F(ViewOfTwelve, KnowsItsSizes) {
  EXPECT_EQ(view_.size(0), 3);
  EXPECT_EQ(view_.count(), 12);
  EXPECT_EQ(view_.bytes(), 48);
  EXPECT_EQ(view_.as<float>()[7], 7.0F);
  EXPECT_EQ(view_.span<float>().size(), 12U);
}

TEST_F(ViewOfTwelve, IsReadOnlyAsAConstView) {
  const ConstView constant = view_;
  static_assert(std::is_same_v<decltype(constant.as<float>()), const float*>);
  static_assert(!std::is_convertible_v<ConstView, View>);
  EXPECT_EQ(constant.data(), view_.data());
  EXPECT_EQ(constant.shape(), view_.shape());
}

TEST_F(ViewOfTwelve, IsNotReadAsAnotherType) {
  EXPECT_THROW((void)view_.as<double>(), InternalError);
  EXPECT_THROW((void)view_.as<std::int32_t>(), InternalError);
  EXPECT_THROW((void)view_.span<BFloat16>(), InternalError);
}

TEST_F(ViewOfTwelve, GivesRowsWithoutCopying) {
  const View rows = view_.rows(1, 3);
  EXPECT_EQ(rows.shape(), (Shape{2, 4}));
  EXPECT_EQ(rows.as<float>(), numbers_.data() + 4);
  EXPECT_EQ(view_[2].shape(), (Shape{4}));
  EXPECT_EQ(view_[2].as<float>()[0], 8.0F);
  EXPECT_EQ(view_[2][3].shape(), Shape{});
  EXPECT_EQ(*view_[2][3].as<float>(), 11.0F);
  EXPECT_EQ(view_.rows(3, 3).count(), 0);
}

TEST_F(ViewOfTwelve, RefusesRowsItDoesNotHave) {
  EXPECT_THROW((void)view_.rows(-1, 1), ShapeError);
  EXPECT_THROW((void)view_.rows(2, 1), ShapeError);
  EXPECT_THROW((void)view_.rows(0, 4), ShapeError);
  EXPECT_THROW((void)view_[3], ShapeError);
  EXPECT_THROW((void)view_[0][0].rows(0, 0), ShapeError) << "a scalar has no rows";
}

TEST_F(ViewOfTwelve, IsSeenInAnotherShapeOfTheSameCount) {
  EXPECT_EQ(view_.reshaped({2, 6})[1].as<float>()[0], 6.0F);
  try {
    (void)view_.reshaped({5, 2});
    FAIL() << "ten of twelve";
  } catch (const ShapeError& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("[3, 4] as [5, 2]"));
  }
}

TEST(View, OfNothingIsNotAnEmptyTensor) {
  EXPECT_FALSE(View().exists());
  EXPECT_TRUE(View(nullptr, DType::kF32, Shape{0, 4}).exists());
}

}  // namespace
}  // namespace optimus
