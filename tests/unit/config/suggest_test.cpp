#include "optimus/config/suggest.hpp"

#include <gtest/gtest.h>

namespace optimus {
namespace {

TEST(EditDistance, CountsInsertionsDeletionsSubstitutionsAndSwaps) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("wieght", "weight"), 1);
}

TEST(NearestKey, PrefersASlipInTheNameOverAnotherTable) {
  EXPECT_EQ(nearest_key("a.stesp", {"b.stesp_x", "a.steps", "b.steps"}), "a.steps");
  EXPECT_EQ(nearest_key("model.micro_batch", {"model.num_heads", "batch.micro_batch"}), "batch.micro_batch");
  EXPECT_EQ(nearest_key("optimizer.sharding", {"optimizer.schedule", "parallel.optimizer_sharding"}), "parallel.optimizer_sharding");
  EXPECT_EQ(nearest_key("x", {}), "");
}

}  // namespace
}  // namespace optimus
