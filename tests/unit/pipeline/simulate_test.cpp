#include "optimus/pipeline/simulate.hpp"

#include <limits>

#include "optimus/pipeline/draw.hpp"
#include "support.hpp"

namespace optimus::pipeline::test {
namespace {

TEST(Simulate, BubblesOfEqualStagesAreThoseOfTheFormulas) {
  for (const StageTimes& times : {StageTimes{1, 1, 1}, StageTimes{1, 1, 0.5}, StageTimes{1, 2, 1}, StageTimes{2, 1.25, 0.75}})
    for (const char* name : kAllSchedules)
      for_all_sizes(name, [&](const Schedule& s) {
        if (s.is_forward_only() && s.virtual_stages > 1 && s.micro_batches % s.stages != 0) return;  // the last chunks wait: no formula
        EXPECT_NEAR(simulate(s, times).bubble_fraction, bubble_formula(s, times), 1e-12);
      });
}

TEST(Simulate, BubblesWorkedByHand) {
  // 4 stages, 8 micro-batches: 3 of 11 slots idle, 3 of 19 with two chunks; ZB-H1 idles 3·(1+1-1) = 3 of 27 units.
  EXPECT_NEAR(simulate(build_schedule({"gpipe", 4, 1, 8}), {}).bubble_fraction, 3.0 / 11, 1e-12);
  EXPECT_NEAR(simulate(build_schedule({"1f1b", 4, 1, 8}), {}).bubble_fraction, 3.0 / 11, 1e-12);
  EXPECT_NEAR(simulate(build_schedule({"interleaved", 4, 2, 8}), {}).bubble_fraction, 3.0 / 19, 1e-12);
  EXPECT_NEAR(simulate(build_schedule({"zero_bubble", 4, 1, 8}), {}).bubble_fraction, 3.0 / 27, 1e-12);
  EXPECT_NEAR(simulate(build_schedule({"1f1b", 1, 1, 8}), {}).bubble_fraction, 0, 1e-12);
}

TEST(Simulate, TimesOfTwoStagesAndTwoMicroBatches) {
  const Simulation result = simulate(build_schedule({"1f1b", 2, 1, 2}), {.forward = 1, .backward_input = 1, .backward_weight = 1, .transfer = 0.5});
  const double stage0[][2] = {{0, 1}, {1, 2}, {5, 7}, {8, 10}}, stage1[][2] = {{1.5, 2.5}, {2.5, 4.5}, {4.5, 5.5}, {5.5, 7.5}};
  ASSERT_EQ(result.spans[0].size(), 4);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_DOUBLE_EQ(result.spans[0][i].start, stage0[i][0]);
    EXPECT_DOUBLE_EQ(result.spans[0][i].end, stage0[i][1]);
    EXPECT_DOUBLE_EQ(result.spans[1][i].start, stage1[i][0]);
    EXPECT_DOUBLE_EQ(result.spans[1][i].end, stage1[i][1]);
  }
  EXPECT_DOUBLE_EQ(result.total, 10);
  EXPECT_DOUBLE_EQ(result.bubble_fraction, 1 - 12 / 20.0);
}

TEST(Simulate, NothingWaitsForATransferBetweenChunksOfOneStage) {
  EXPECT_DOUBLE_EQ(simulate(build_schedule({"interleaved", 1, 3, 2}), {.transfer = 100}).total, 18);
}

/// Time that transfers of `x` add.
double added(const ScheduleRequest& request, double x) {
  const Schedule s = build_schedule(request);
  return simulate(s, {.transfer = x}).total - simulate(s, {}).total;
}

TEST(Simulate, TransfersAreHiddenButForFillingAndEmptyingThePipelineExceptUnder1f1b) {
  for (const Index P : {2, 3, 4, 8})
    for (const Index M : {2 * P, 6 * P})
      for (const double x : {0.1, 0.4}) {
        SCOPED_TRACE(fmt::format("P {}, M {}, x {}", P, M, x));
        const auto p = static_cast<double>(P);
        EXPECT_NEAR(added({"gpipe", P, 1, M}, x), 2 * (p - 1) * x, 1e-9);
        EXPECT_NEAR(added({"zero_bubble", P, 1, M}, x), 4 * (p - 1) * x, 1e-9);
        EXPECT_NEAR(added({"interleaved", P, 2, M}, x), 2 * (2 * p - 1) * x, 1e-9);
        EXPECT_NEAR(added({"1f1b", P, 1, M + P}, x) - added({"1f1b", P, 1, M}, x), 2 * (p - 1) * x, 1e-9);
      }
  EXPECT_NEAR(added({"1f1b", 2, 1, 16}, 0.1), 1.6, 1e-9);
}

TEST(Simulate, TimesThatAreNoneAreRefused) {
  const Schedule s = build_schedule({"1f1b", 2, 1, 2});
  EXPECT_HAS(message_of<ConfigError>([&] { (void)simulate(s, {.forward = -1}); }), "-1");
  EXPECT_HAS(message_of<ConfigError>([&] { (void)simulate(s, {.transfer = std::numeric_limits<double>::infinity()}); }), "inf");
  EXPECT_HAS(message_of<ConfigError>([&] { (void)simulate(s, {0, 0, 0, 1}); }), "more than 0");
  EXPECT_HAS(message_of<ConfigError>([&] { (void)simulate(build_schedule({"forward", 2, 1, 2}), {0, 1, 1}); }), "more than 0");
}

// Worked out by hand.
TEST(Draw, OneForwardOneBackward) {
  EXPECT_EQ(draw(build_schedule({"1f1b", 2, 1, 2}), {}),
            "stage 0  F0 F1 ......B0--- ...B1---\n"
            "stage 1  ...F0 B0--- F1 B1--- ......\n");
}

TEST(Draw, ZeroBubble) {
  EXPECT_EQ(draw(build_schedule({"zero_bubble", 3, 1, 3}), {}),
            "stage 0  F0 F1 F2 ......B0 W0 B1 W1 B2 W2\n"
            "stage 1  ...F0 F1 ...B0 F2 B1 W0 B2 W1 W2\n"
            "stage 2  ......F0 B0 F1 B1 F2 B2 W0 W1 W2\n");
}

TEST(Draw, ChunksHaveLettersAndShortActionsAreAsWideAsTheirLabel) {
  EXPECT_EQ(draw(build_schedule({"interleaved", 2, 2, 2}), {.forward = 1, .backward_input = 1, .backward_weight = 0}),
            "stage 0  F0a F1a F0b F1b ....B0b ....B1b B0a B1a\n"
            "stage 1  ....F0a F1a F0b B0b F1b B1b B0a B1a ....\n");
}

TEST(Draw, LongPicturesGoOnInBlocksThatSayWhereTheyBegin) {
  const std::string text = draw(build_schedule({"gpipe", 2, 1, 12}), {}, 60);
  EXPECT_HAS(text, "from time 0:\nstage 0  F0");
  EXPECT_HAS(text, "\n\nfrom time 12.75:\nstage 0  ");
  for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) EXPECT_LE(end - begin, 60);
}

TEST(Draw, TimesOfVeryDifferentSizeStillGiveAPictureThatEnds) {
  const std::string text = draw(build_schedule({"1f1b", 2, 1, 2}), {.forward = 1e-9, .backward_input = 1e6});
  EXPECT_LT(text.size(), 10'000);
  EXPECT_HAS(text, "B0");
}

}  // namespace
}  // namespace optimus::pipeline::test
