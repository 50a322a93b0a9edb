#include <map>

#include "optimus/pipeline/schedule.hpp"
#include "support.hpp"

namespace optimus::pipeline::test {
namespace {

using Kind = ActionKind;

TEST(Schedule, EverySizeOfEveryScheduleIsValid) {
  for (const char* name : kAllSchedules) for_all_sizes(name, [](const Schedule& s) { ASSERT_NO_THROW(validate(s)); });
}

TEST(Schedule, ActivationsReachTheirBoundAndNeverPassIt) {
  for (const char* name : kAllSchedules)
    for_all_sizes(name, [](const Schedule& s) {
      for (Index stage = 0; stage < s.stages; ++stage) EXPECT_EQ(s.peak_activations(stage), activation_bound(s, stage)) << "stage " << stage;
    });
}

TEST(Schedule, KnownBoundsOfFourStagesAndEightMicroBatches) {
  const auto peaks = [](const char* name, Index V) {
    const Schedule s = build_schedule({name, 4, V, 8});
    std::vector<Index> result;
    for (Index stage = 0; stage < 4; ++stage) result.push_back(s.peak_activations(stage));
    return result;
  };
  EXPECT_EQ(peaks("gpipe", 1), (std::vector<Index>{8, 8, 8, 8}));
  EXPECT_EQ(peaks("1f1b", 1), (std::vector<Index>{4, 3, 2, 1}));
  EXPECT_EQ(peaks("zero_bubble", 1), (std::vector<Index>{4, 4, 4, 4}));
  EXPECT_EQ(peaks("interleaved", 1), (std::vector<Index>{4, 3, 2, 1}));
  EXPECT_EQ(peaks("interleaved", 2), (std::vector<Index>{11, 9, 7, 5}));
  EXPECT_EQ(peaks("forward", 2), (std::vector<Index>{1, 1, 1, 1}));
}

TEST(Schedule, SlotsAreTheLowestFreeOnesAndAsManyAsAreHeldAtOnce) {
  for (const char* name : kAllSchedules)
    for_all_sizes(name, [](const Schedule& s) {
      for (Index stage = 0; stage < s.stages; ++stage) {
        Index sum = 0;
        for (Index chunk = 0; chunk < s.virtual_stages; ++chunk) {
          Index held = 0, peak = 0;
          for (const Action& a : s.actions[static_cast<std::size_t>(stage)]) {
            if (a.chunk != chunk) continue;
            if (a.kind == Kind::kForward) peak = std::max(peak, ++held);
            if (a.kind == Kind::kBackward || a.kind == Kind::kBackwardWeight || s.is_forward_only()) --held;
          }
          EXPECT_EQ(s.slots(stage, chunk), peak) << "stage " << stage << ", chunk " << chunk;
          sum += peak;
        }
        EXPECT_GE(sum, s.peak_activations(stage));
      }
    });
}

TEST(Schedule, MicroBatchesBetweenForwardAndInputPartAreAsFewUnderZeroBubbleAsUnder1f1b) {
  for_all_sizes("zero_bubble", [](const Schedule& s) {
    for (Index stage = 0; stage < s.stages; ++stage) {
      Index waiting = 0, peak = 0;
      for (const Action& a : s.actions[static_cast<std::size_t>(stage)]) {
        if (a.kind == Kind::kForward) peak = std::max(peak, ++waiting);
        if (a.kind == Kind::kBackwardInput) --waiting;
      }
      EXPECT_EQ(peak, std::min(s.micro_batches, s.stages - stage)) << "stage " << stage;
    }
  });
}

TEST(Schedule, WeightGradientsOfAChunkComeInTheOrderOfMicroBatchesInEverySchedule) {
  for (const char* name : kTrainingSchedules)
    for_all_sizes(name, [](const Schedule& s) {
      for (const auto& actions : s.actions) {
        std::map<Index, Index> next;
        for (const Action& a : actions)
          if (a.kind == Kind::kBackward || a.kind == Kind::kBackwardWeight) {
            ASSERT_EQ(a.micro_batch, next[a.chunk]++);
          }
      }
    });
}

TEST(Schedule, OneStageWorksOffOneMicroBatchAfterTheOther) {
  EXPECT_EQ(print(build_schedule({"1f1b", 1, 1, 3})), "stage 0: F0 B0 F1 B1 F2 B2\n");
  EXPECT_EQ(print(build_schedule({"gpipe", 1, 1, 2})), "stage 0: F0 F1 B0 B1\n");
  EXPECT_EQ(print(build_schedule({"zero_bubble", 1, 1, 2})), "stage 0: F0 B0 W0 F1 B1 W1\n");
  EXPECT_EQ(print(build_schedule({"interleaved", 1, 2, 2})), "stage 0: F0a F0b B0b F1a B0a F1b B1b B1a\n");
  EXPECT_EQ(print(build_schedule({"forward", 1, 2, 2})), "stage 0: F0a F0b F1a F1b\n");
}

TEST(Schedule, PrintsAStageALine) {
  EXPECT_EQ(print(build_schedule({"1f1b", 3, 1, 4})),
            "stage 0: F0 F1 F2 B0 F3 B1 B2 B3\n"
            "stage 1: F0 F1 B0 F2 B1 F3 B2 B3\n"
            "stage 2: F0 B0 F1 B1 F2 B2 F3 B3\n");
  EXPECT_EQ(print(build_schedule({"zero_bubble", 3, 1, 4})),
            "stage 0: F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3\n"
            "stage 1: F0 F1 B0 F2 B1 W0 F3 B2 W1 B3 W2 W3\n"
            "stage 2: F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3\n");
  EXPECT_EQ(print(build_schedule({"interleaved", 2, 2, 2})),
            "stage 0: F0a F1a F0b F1b B0b B1b B0a B1a\n"
            "stage 1: F0a F1a F0b B0b F1b B1b B0a B1a\n");
}

TEST(Schedule, FewerMicroBatchesThanStages) {
  EXPECT_EQ(print(build_schedule({"1f1b", 4, 1, 2})),
            "stage 0: F0 F1 B0 B1\n"
            "stage 1: F0 F1 B0 B1\n"
            "stage 2: F0 F1 B0 B1\n"
            "stage 3: F0 B0 F1 B1\n");
}

TEST(Schedule, WhatCannotBeBuiltIsRefusedNamingTheNumbers) {
  std::string message = message_of<ConfigError>([] { (void)build_schedule({"interleaved", 4, 2, 6}); });
  EXPECT_HAS(message, "6 micro-batches on 4 stages");
  EXPECT_HAS(message_of<ConfigError>([] { (void)build_schedule({"1f1b", 2, 3, 2}); }), "3 virtual stages need");
  EXPECT_HAS(message_of<ConfigError>([] { (void)build_schedule({"2f2b", 2, 1, 2}); }), "zero_bubble");
  EXPECT_HAS(message_of<ConfigError>([] { (void)build_schedule({"gpipe", 2, 1, 0}); }), "0 micro-batches");
  EXPECT_HAS(message_of<ConfigError>([] { (void)build_schedule({"gpipe", 0, 1, 1}); }), "0 stages");
  EXPECT_HAS(message_of<ConfigError>([] { (void)build_schedule({"gpipe", 1 << 20, 1, 1 << 20}); }), "1048576 micro-batches");
}

TEST(Schedule, LargePipelinesAreBuiltAndCheckedAtOnce) {
  const Schedule s = build_schedule({"interleaved", 64, 2, 256});
  EXPECT_NO_THROW(validate(s));
}

}  // namespace
}  // namespace optimus::pipeline::test
