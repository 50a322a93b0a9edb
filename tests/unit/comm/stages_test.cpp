#include "optimus/comm/stages.hpp"

#include <gtest/gtest.h>

namespace optimus {
namespace {

using Begins = std::vector<Index>;

TEST(Stages, GivesTheFirstStagesOneLayerMore) {
  EXPECT_EQ(cut_layers(10, 3, {}), (Begins{0, 4, 7, 10}));
  EXPECT_EQ(cut_layers(4, 4, {}), (Begins{0, 1, 2, 3, 4}));
  EXPECT_EQ(cut_layers(2, 3, {}), (Begins{0, 1, 2, 2}));
  EXPECT_EQ(cut_layers(0, 1, {}), (Begins{0, 0}));
}

TEST(Stages, FollowsAnExplicitSplit) { EXPECT_EQ(cut_layers(10, 3, {1, 0, 9}), (Begins{0, 1, 1, 10})); }

TEST(Stages, RefusesSplitsThatDoNotFitNamingBothNumbers) {
  const auto message = [](Index layers, Index stages, const Begins& split) -> std::string {
    try {
      (void)cut_layers(layers, stages, split);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message(10, 3, {4, 3, 2}).find("adds up to 9 layers, the model has 10"), std::string::npos);
  EXPECT_NE(message(10, 3, {5, 5}).find("2 numbers for 3 stages"), std::string::npos);
  EXPECT_NE(message(10, 2, {11, -1}).find("stage 1 -1"), std::string::npos);
  EXPECT_NE(message(10, 0, {}).find("0 pipeline stages"), std::string::npos);
}

}  // namespace
}  // namespace optimus
