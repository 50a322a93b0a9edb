// Initial weights depend on seed, name and place alone.

#include "optimus/model/initialize.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "optimus/base/random.hpp"

namespace optimus {
namespace {

std::vector<float> fill(const ParamSpec& spec, const Box& box, Index flat_begin, Index count, std::uint64_t seed = 1) {
  std::vector<float> values(static_cast<std::size_t>(count), NAN);
  initialize(spec, box, flat_begin, seed, View(reinterpret_cast<std::byte*>(values.data()), DType::kF32, {count}));
  return values;
}
std::vector<float> fill_all(const ParamSpec& spec, std::uint64_t seed = 1) { return fill(spec, Box::whole(spec.shape), 0, spec.shape.count(), seed); }

const ParamSpec kMatrix{.name = "model.layers.0.self_attn.q_proj.weight", .shape = {7, 5}, .init_std = 0.02};
const ParamSpec kStacked{.name = "model.layers.3.mlp.experts.{}.up_proj.weight", .shape = {4, 3, 6}, .init_std = 0.5, .is_expert = true};

TEST(Initialize, KeepsItsValuesForEver) {
  // Changing these breaks every run that is to be repeated from its seed.
  const std::vector<float> values = fill_all(kMatrix);
  EXPECT_FLOAT_EQ(values[0], -0.037796732F);
  EXPECT_FLOAT_EQ(values[1], -0.010626503F);
  EXPECT_FLOAT_EQ(values[34], 0.023309173F);
  EXPECT_FLOAT_EQ(fill_all(kStacked)[3 * 18 + 17], -0.68388879F);
}

TEST(Initialize, IsTheNamedStreamTimesTheDeviation) {
  const RandomStream stream(9, "init", kMatrix.name);
  const std::vector<float> values = fill_all(kMatrix, 9);
  for (Index i = 0; i < 35; ++i) EXPECT_EQ(values[static_cast<std::size_t>(i)], static_cast<float>(0.02 * static_cast<double>(stream.normal(i))));
  EXPECT_NE(fill_all(kMatrix, 10), values);
}

TEST(Initialize, HasTheStatedSpread) {
  const ParamSpec spec{.name = "wide", .shape = {300, 200}, .init_std = 0.02};
  double sum = 0, squares = 0;
  for (const float value : fill_all(spec)) {
    sum += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  EXPECT_NEAR(sum / 60000, 0.0, 4 * 0.02 / std::sqrt(60000.0));
  EXPECT_NEAR(std::sqrt(squares / 60000), 0.02, 0.02 * 0.02);
}

TEST(Initialize, GivesAnExpertTheValuesOfItsOwnTensor) {
  const std::vector<float> stacked = fill_all(kStacked);
  for (Index e = 0; e < 4; ++e) {
    const ParamSpec own{.name = kStacked.tensor_name(e), .shape = {3, 6}, .init_std = 0.5};
    EXPECT_EQ(fill_all(own), std::vector<float>(stacked.begin() + e * 18, stacked.begin() + (e + 1) * 18)) << e;
  }
}

TEST(Initialize, FillsAnyFlatRangeOfAnyBoxAlike) {
  for (const ParamSpec& spec : {kMatrix, kStacked}) {
    const std::vector<float> whole = fill_all(spec);
    const Index count = spec.shape.count();
    for (Index begin = 0; begin < count; begin += 4) {
      const Index size = std::min<Index>(11, count - begin);
      EXPECT_EQ(fill(spec, Box::whole(spec.shape), begin, size), std::vector<float>(whole.begin() + begin, whole.begin() + begin + size));
    }
  }
  // Columns [2, 4) of rows [1, 3) of experts [1, 3): not contiguous in the whole.
  const std::vector<float> whole = fill_all(kStacked);
  const Box box{.begin = {1, 1, 2}, .shape = {2, 2, 2}};
  std::vector<float> wanted;
  for (Index e = 1; e < 3; ++e) {
    for (Index r = 1; r < 3; ++r) {
      for (Index c = 2; c < 4; ++c) wanted.push_back(whole[static_cast<std::size_t>((e * 3 + r) * 6 + c)]);
    }
  }
  EXPECT_EQ(fill(kStacked, box, 0, 8), wanted);
  EXPECT_EQ(fill(kStacked, box, 3, 4), std::vector<float>(wanted.begin() + 3, wanted.begin() + 7));
}

TEST(Initialize, SetsGainsToOneAndThePaddingRowToZero) {
  const ParamSpec gain{.name = "gain", .shape = {9}, .init = Init::kOnes};
  EXPECT_EQ(fill_all(gain), std::vector<float>(9, 1.0F));
  ParamSpec embedding{.name = "embedding", .shape = {4, 3}};
  const std::vector<float> without = fill_all(embedding);
  embedding.zero_row = 2;
  std::vector<float> wanted = without;
  std::fill(wanted.begin() + 6, wanted.begin() + 9, 0.0F);
  EXPECT_EQ(fill_all(embedding), wanted);
  EXPECT_EQ(fill(embedding, Box::whole(embedding.shape), 5, 3), std::vector<float>(wanted.begin() + 5, wanted.begin() + 8));
}

}  // namespace
}  // namespace optimus
