#include "optimus/eval/perplexity.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace optimus {
namespace {

TEST(SlidingWindows, ScoreEveryIdButTheFirstOnceWithHalfAWindowOfContext) {
  for (const Index count : {0, 1, 2, 3, 7, 8, 9, 10, 13, 100}) {
    for (const Index positions : {1, 2, 3, 8}) {
      std::vector<std::int32_t> ids(static_cast<std::size_t>(count));
      std::iota(ids.begin(), ids.end(), 0);
      Index next = 1;
      for (const EncodedRequest& window : sliding_windows(ids, positions)) {
        const auto length = static_cast<Index>(window.ids.size());
        ASSERT_LE(length, positions + 1);
        const Index context = length - window.continuation_tokens;
        EXPECT_GE(context, std::min(next, std::max<Index>(1, positions - positions / 2))) << count << " ids, " << positions << " positions";
        for (Index i = context; i < length; ++i) EXPECT_EQ(window.ids[static_cast<std::size_t>(i)], next++);
      }
      EXPECT_EQ(next, std::max<Index>(count, 1));
    }
  }
}

TEST(TextScore, IsClosedForm) {
  const TextScore uniform{.documents = 1, .bytes = 10, .tokens = 10, .logprob = -10 * std::log(256.0)};
  EXPECT_NEAR(uniform.bits_per_byte(), 8.0, 1e-12);
  EXPECT_NEAR(uniform.perplexity(), 256.0, 1e-9);
}

}  // namespace
}  // namespace optimus
