#include "optimus/tensor/shape.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "optimus/tensor/chunk.hpp"
#include "optimus/tensor/param_spec.hpp"

namespace optimus {
namespace {

TEST(Shape, CountsElements) {
  EXPECT_EQ(Shape{}.count(), 1);
  EXPECT_EQ((Shape{4, 0, 3}.count()), 0);
  EXPECT_EQ((Shape{2, 3, 5}.count()), 30);
  EXPECT_EQ((Shape{2, 3, 5}.count_from(1)), 15);
  EXPECT_EQ((Shape{2, 3, 5}.count_from(3)), 1);
  EXPECT_EQ((Shape{Index{1} << 20, Index{1} << 20, 8}.count()), Index{1} << 43);
}

TEST(Shape, RefusesWhatNoTensorHas) {
  EXPECT_THROW((Shape{2, -1}), ShapeError);
  EXPECT_THROW((Shape{1, 2, 3, 4, 5, 6}), ShapeError);
  EXPECT_THROW((void)(Shape{Index{1} << 32, Index{1} << 32}.count()), InternalError);
}

TEST(Shape, IsEqualOnlyWithTheSameDimensions) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2}), (Shape{2, 1}));
  EXPECT_NE(Shape{}, (Shape{0}));
  Shape shape{7, 3};
  shape.set(0, 2);
  EXPECT_EQ(shape, (Shape{2, 3}));
}

TEST(Shape, PrintsLikeAList) {
  EXPECT_EQ(Shape{}.str(), "[]");
  EXPECT_EQ((Shape{4, 256}.str()), "[4, 256]");
}

TEST(Box, OfTheWholeStartsAtZero) {
  const Box box = Box::whole({4, 5});
  EXPECT_EQ(box.begin, (Shape{0, 0}));
  EXPECT_EQ(box.shape, (Shape{4, 5}));
}

TEST(ParamSpec, NamesEachEntryOfAStack) {
  const ParamSpec stacked{.name = "layers.3.experts.{}.up.weight", .shape = {8, 2, 2}};
  EXPECT_TRUE(stacked.is_stacked());
  EXPECT_EQ(stacked.tensor_name(0), "layers.3.experts.0.up.weight");
  EXPECT_EQ(stacked.tensor_name(12), "layers.3.experts.12.up.weight");
  const ParamSpec single{.name = "norm.weight", .shape = {2}};
  EXPECT_FALSE(single.is_stacked());
  EXPECT_EQ(single.tensor_name(0), "norm.weight");
}

}  // namespace
}  // namespace optimus
