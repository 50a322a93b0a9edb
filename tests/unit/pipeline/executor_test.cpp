// One stage alone: messages between its chunks stay in memory. Several stages: tests/parallel/pipeline.
#include "optimus/pipeline/executor.hpp"

#include "optimus/comm/self/self.hpp"
#include "support.hpp"
#include "tests/support/pipeline_testing.hpp"

namespace optimus::pipeline::test {
namespace {

constexpr Index kWidth = 5;

TEST(Executor, OneStageGivesTheResultsOfThePlainLoop) {
  const auto self = make_self_communicator();
  for (const char* name : kTrainingSchedules)
    for (const Index V : {1, 2, 3}) {
      if (V > 1 && name != std::string("interleaved")) continue;
      for (const Index M : {1, 2, 5})
        for (const bool overlap : {false, true}) {
          SCOPED_TRACE(fmt::format("{}, V {}, M {}", name, V, M));
          const Schedule schedule = build_schedule({name, 1, V, M});
          Executor executor(schedule, *self, formats(kWidth), overlap);
          for (int run = 0; run < 2; ++run) {
            ToyWork work(schedule, 0, kWidth);
            executor.run(work);
            EXPECT_EQ(work.weights, toy_weights(V, M, kWidth));
            EXPECT_EQ(work.calls, schedule.actions[0]);
          }
        }
    }
}

TEST(Executor, ForwardAloneGivesTheOutputsInOrder) {
  const auto self = make_self_communicator();
  const Schedule schedule = build_schedule({"forward", 1, 3, 4});
  Executor executor(schedule, *self, formats(kWidth), true);
  ToyWork work(schedule, 0, kWidth);
  executor.run(work);
  ASSERT_EQ(work.outputs.size(), 4 * kWidth);
  for (Index n = 0; n < 4 * kWidth; ++n) {
    Index value = toy_input(n / kWidth, n % kWidth);
    for (Index g = 0; g < 3; ++g) value = ToyChunk{g}.forward(value);
    EXPECT_EQ(work.outputs[static_cast<std::size_t>(n)], value);
  }
}

TEST(Executor, WhatTheWorkThrowsComesOutAsItIs) {
  struct Failing : ToyWork {
    using ToyWork::ToyWork;
    void before(const Action& a) override {
      if (a.micro_batch == 1 && a.kind == ActionKind::kBackward) throw NumericError("[moe] the loss is not a number");
    }
  };
  const auto self = make_self_communicator();
  const Schedule schedule = build_schedule({"1f1b", 1, 1, 3});
  Executor executor(schedule, *self, formats(kWidth), true);
  Failing work(schedule, 0, kWidth);
  EXPECT_EQ(message_of<NumericError>([&] { executor.run(work); }), "[moe] the loss is not a number");
}

TEST(Executor, AGroupOfAnotherSizeIsRefusedNamingBothNumbers) {
  const auto self = make_self_communicator();
  const std::string message = message_of<ConfigError>([&] { Executor(build_schedule({"1f1b", 2, 1, 2}), *self, formats(1), true); });
  EXPECT_HAS(message, "2 stages");
  EXPECT_HAS(message, "1 rank;");
}

TEST(Executor, AnInvalidScheduleIsRefused) {
  const auto self = make_self_communicator();
  Schedule schedule = build_schedule({"1f1b", 1, 1, 2});
  schedule.actions[0].pop_back();
  EXPECT_THROW(Executor(schedule, *self, formats(1), true), InternalError);
}

TEST(PlanBytes, AStageInTheMiddleHasTwoReceivesAndTwoSendsEachWayUnder1f1b) {
  const Schedule schedule = build_schedule({"1f1b", 4, 1, 8});
  const MessageFormats sizes{.forward = {DType::kBF16, {3, 32}, 0}, .backward = {DType::kBF16, {3, 32}, 8}};  // 192 and 192 + 64 bytes
  EXPECT_EQ(plan_bytes(schedule, 0, sizes, true), 2 * 192 + 2 * 256);
  EXPECT_EQ(plan_bytes(schedule, 1, sizes, true), 4 * 192 + 4 * 256);
  EXPECT_EQ(plan_bytes(schedule, 3, sizes, true), 2 * 192 + 2 * 256);
  EXPECT_EQ(plan_bytes(schedule, 1, sizes, false), 2 * 192 + 2 * 256);
  EXPECT_EQ(plan_bytes(build_schedule({"gpipe", 1, 1, 8}), 0, sizes, true), 0) << "one chunk sends nothing";
}

TEST(PlanBytes, MemoryForMessagesDoesNotGrowWithTheMicroBatches) {
  for (const char* name : kTrainingSchedules)
    for (const bool overlap : {false, true}) {
      const Index V = name == std::string("interleaved") ? 2 : 1;
      for (Index stage = 0; stage < 4; ++stage) {
        const Index some = plan_bytes(build_schedule({name, 4, V, 16}), stage, formats(8), overlap);
        EXPECT_EQ(plan_bytes(build_schedule({name, 4, V, 64}), stage, formats(8), overlap), some) << name << ", stage " << stage;
      }
    }
}

}  // namespace
}  // namespace optimus::pipeline::test
