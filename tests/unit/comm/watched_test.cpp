#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "optimus/comm/dry/dry.hpp"
#include "optimus/comm/watched/watched.hpp"
#include "optimus/tensor/nonfinite.hpp"

namespace optimus {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

/// A pretended group of two: what is sent is looked at, nothing is moved.
class Watched : public testing::Test {
 protected:
  TransferWatch watch;
  std::unique_ptr<Communicator> dry = make_dry_communicator(2, 0, "world");
  std::unique_ptr<Communicator> world = make_watched_communicator(*dry, watch);
  std::array<Index, 2> both = {0, 1};
  std::unique_ptr<Communicator> ep = world->subgroup(both, "ep"), dp = world->subgroup(both, "dp");
  std::vector<float> values = std::vector<float>(8);
  View view{reinterpret_cast<std::byte*>(values.data()), DType::kF32, {8}};
};

TEST_F(Watched, TheFirstBadNumberIsRememberedWithItsPlace) {
  watch.start_looking();
  watch.enter(3);
  ep->all_reduce(view, Reduce::kSum);
  EXPECT_FALSE(watch.first_nonfinite());
  values[5] = static_cast<float>(kInf);
  ep->all_reduce(view, Reduce::kSum);
  values[2] = static_cast<float>(kNan);
  ep->all_reduce(view, Reduce::kSum);
  ASSERT_TRUE(watch.first_nonfinite());
  EXPECT_EQ(watch.first_nonfinite()->order, 3 * TransferWatch::kTransfersPerPlace + 2);
  EXPECT_FALSE(watch.first_nonfinite()->is_nan);
  EXPECT_EQ(watch.first_nonfinite()->transfer, "all_reduce over ep");
}

TEST_F(Watched, GradientsAndOtherTimesAreNotLookedAt) {
  values[0] = static_cast<float>(kNan);
  ep->all_reduce(view, Reduce::kSum);
  watch.start_looking();
  dp->all_reduce(view, Reduce::kSum);
  EXPECT_FALSE(watch.first_nonfinite());
  watch.stop_looking();
  ep->all_reduce(view, Reduce::kSum);
  EXPECT_FALSE(watch.first_nonfinite());
}

TEST_F(Watched, ADrillSpoilsWhatLeavesTheRank) {
  watch.start_looking();
  watch.spoil_next(kNan);
  const std::array<Index, 2> counts = {4, 4};
  ep->all_to_all_v(view, counts, view, counts);
  EXPECT_TRUE(std::isnan(values[4])) << "the first that is not for itself";
  EXPECT_TRUE(watch.first_nonfinite());
}

}  // namespace
}  // namespace optimus
