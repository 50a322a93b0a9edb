#include "optimus/checkpoint/region.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace optimus {
namespace {

Index position(const Shape& shape, const std::vector<Index>& index) {
  Index flat = 0;
  for (int d = 0; d < shape.ndim(); ++d) flat = flat * shape[d] + index[static_cast<std::size_t>(d)];
  return flat;
}

// Positions in the tensor of a box's elements, in row-major order of the box.
std::vector<Index> elements(const Shape& shape, const Box& box) {
  std::vector<Index> result;
  for (Index i = 0; i < box.shape.count(); ++i) {
    std::vector<Index> index(static_cast<std::size_t>(shape.ndim()));
    Index rest = i;
    for (int d = shape.ndim() - 1; d >= 0; --d) {
      index[static_cast<std::size_t>(d)] = box.begin[d] + rest % box.shape[d];
      rest /= box.shape[d];
    }
    result.push_back(position(shape, index));
  }
  return result;
}

std::vector<Index> elements(const Shape& shape, const Region& region) {
  const auto all = elements(shape, region.box);
  return {all.begin() + region.flat_begin, all.begin() + region.flat_end};
}

std::string who(std::size_t i) { return fmt::format("#{}", i); }

const Box kInner{.begin = {1, 2, 0}, .shape = {3, 2, 4}};
const Shape kShape{5, 4, 4};

TEST(Region, SplitsEveryFlatRangeIntoBoxesInOrder) {
  for (Index begin = 0; begin <= 24; ++begin) {
    for (Index end = begin; end <= 24; ++end) {
      const Region region{kInner, begin, end};
      std::vector<Index> found;
      const auto boxes = split_into_boxes(region);
      for (const Box& box : boxes) {
        const auto part = elements(kShape, box);
        found.insert(found.end(), part.begin(), part.end());
      }
      EXPECT_EQ(found, elements(kShape, region)) << region.str();
      EXPECT_LE(boxes.size(), 5U);
    }
  }
}

TEST(Region, SharedRunsAreExactlyTheSharedElements) {
  const std::vector<Region> regions{{Box::whole(kShape), 3, 71},
                                    {kInner, 0, 24},
                                    {kInner, 5, 20},
                                    {{.begin = {0, 0, 1}, .shape = {5, 4, 2}}, 7, 33},
                                    {{.begin = {2, 0, 0}, .shape = {2, 4, 4}}, 0, 32},
                                    {Box::whole(kShape), 0, 3},
                                    {kInner, 20, 24}};
  for (const Region& a : regions) {
    for (const Region& b : regions) {
      const auto in_a = elements(kShape, a), in_b = elements(kShape, b);
      std::set<Index> found;
      Index last_a = -1, last_b = -1;
      for_each_shared_run(a, b, [&](Index from, Index to, Index count) {
        EXPECT_GT(from, last_a);
        EXPECT_GT(to, last_b);
        for (Index i = 0; i < count; ++i) {
          EXPECT_EQ(in_a.at(static_cast<std::size_t>(from + i)), in_b.at(static_cast<std::size_t>(to + i)));
          found.insert(in_a.at(static_cast<std::size_t>(from + i)));
        }
        last_a = from + count - 1;
        last_b = to + count - 1;
      });
      std::vector<Index> sorted_a = in_a, sorted_b = in_b, shared;
      std::sort(sorted_a.begin(), sorted_a.end());
      std::sort(sorted_b.begin(), sorted_b.end());
      std::set_intersection(sorted_a.begin(), sorted_a.end(), sorted_b.begin(), sorted_b.end(), std::back_inserter(shared));
      EXPECT_EQ(std::vector(found.begin(), found.end()), shared) << a.str() << " and " << b.str();
      EXPECT_EQ(have_common(a, b), !shared.empty()) << a.str() << " and " << b.str();
    }
  }
}

TEST(Region, CoverageAcceptsMixedBoxesAndRanges) {
  const Shape shape{4, 6};
  const Box top{.begin = {0, 0}, .shape = {2, 6}}, left{.begin = {2, 0}, .shape = {2, 1}}, right{.begin = {2, 1}, .shape = {2, 5}};
  const std::vector<Region> regions{{top, 0, 5}, {right, 0, 7}, {top, 5, 12}, {left, 0, 2}, {right, 7, 10}};
  EXPECT_EQ(coverage_problem(shape, regions, who), "");
}

TEST(Region, CoverageNamesAnOverlap) {
  const Shape shape{4, 6};
  const std::vector<Region> regions{{Box::whole(shape), 0, 13}, {Box::whole(shape), 12, 24}};
  EXPECT_EQ(coverage_problem(shape, regions, who), "elements [2:3, 0:1] are held twice: by #0 and by #1");
}

TEST(Region, CoverageNamesAGap) {
  const Shape shape{4, 6};
  const std::vector<Region> regions{{Box::whole(shape), 0, 11}, {Box::whole(shape), 12, 24}};
  EXPECT_EQ(coverage_problem(shape, regions, who), "1 of 24 elements are held by nobody");
  EXPECT_EQ(coverage_problem(shape, std::vector<Region>{}, who), "24 of 24 elements are held by nobody");
}

TEST(Region, CoverageSeesAnOverlapThatMakesUpForAGap) {
  const Shape shape{10};
  const std::vector<Region> regions{{Box::whole(shape), 0, 5}, {Box::whole(shape), 0, 5}};
  EXPECT_NE(coverage_problem(shape, regions, who), "");
}

TEST(Region, CoverageOfScalarsAndOfNothing) {
  const Shape scalar;
  EXPECT_EQ(coverage_problem(scalar, std::vector<Region>{{Box::whole(scalar), 0, 1}}, who), "");
  EXPECT_NE(coverage_problem(scalar, std::vector<Region>{{Box::whole(scalar), 0, 1}, {Box::whole(scalar), 0, 1}}, who), "");
  EXPECT_EQ(coverage_problem(Shape{0, 3}, std::vector<Region>{}, who), "");
}

TEST(Region, RejectsWhatGoesBeyondTheTensor) {
  const Shape shape{4, 6};
  EXPECT_NE(region_problem(shape, {{.begin = {3, 0}, .shape = {2, 6}}, 0, 12}), "");
  EXPECT_NE(region_problem(shape, {Box::whole(shape), 0, 25}), "");
  EXPECT_NE(region_problem(shape, {Box::whole(shape), -1, 5}), "");
  EXPECT_NE(region_problem(shape, {Box::whole({24}), 0, 24}), "");
  EXPECT_EQ(region_problem(shape, {Box::whole(shape), 24, 24}), "");
}

// 12,288 flat shards of a tensor of 10^12 elements: time depends on the shards only.
TEST(Region, ProvesCoverageOfHugeTensorsQuickly) {
  const Shape shape{1'000'000, 1'000'000};
  const Index total = shape.count(), shards = 12'288;
  std::vector<Region> regions;
  for (Index i = 0; i < shards; ++i) regions.push_back({Box::whole(shape), total / shards * i, i + 1 == shards ? total : total / shards * (i + 1)});
  EXPECT_EQ(coverage_problem(shape, regions, who), "");
  regions[5000].flat_end -= 1;
  EXPECT_EQ(coverage_problem(shape, regions, who), fmt::format("1 of {} elements are held by nobody", total));
}

}  // namespace
}  // namespace optimus
