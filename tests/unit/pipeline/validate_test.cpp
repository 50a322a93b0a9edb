#include "optimus/pipeline/schedule.hpp"
#include "support.hpp"

namespace optimus::pipeline::test {
namespace {

using Kind = ActionKind;

/// What validate() says of a schedule spoilt by `spoil`.
template <class Spoil>
std::string complaint(const ScheduleRequest& request, Spoil&& spoil) {
  Schedule schedule = build_schedule(request);
  spoil(schedule);
  return message_of<InternalError>([&] { validate(schedule); });
}

TEST(Validate, AMissingBackwardIsCounted) {
  const auto message = complaint({"1f1b", 2, 1, 2}, [](Schedule& s) { s.actions[1].pop_back(); });
  EXPECT_HAS(message, "1f1b, stage 1, chunk 0: 2 forwards, 1 input part and 1 weight part");
}

TEST(Validate, APassThatComesTwiceIsNamed) {
  const auto message = complaint({"1f1b", 2, 1, 2}, [](Schedule& s) { s.actions[0].push_back(s.actions[0].front()); });
  EXPECT_HAS(message, "stage 0, action 4 (forward of micro-batch 0 in chunk 0");
}

TEST(Validate, MicroBatchesOutOfOrderAreNamed) {
  const auto message = complaint({"gpipe", 2, 1, 3}, [](Schedule& s) { std::swap(s.actions[0][3], s.actions[0][4]); });
  EXPECT_HAS(message, "stage 0, action 3 (backward of micro-batch 1");
  EXPECT_HAS(message, "micro-batch 0 is next");
}

TEST(Validate, ABackwardBeforeItsForwardIsNamed) {
  const auto message = complaint({"1f1b", 2, 1, 2}, [](Schedule& s) { std::swap(s.actions[1][2], s.actions[1][3]); });
  EXPECT_HAS(message, "stage 1, action 2 (backward of micro-batch 1");
}

TEST(Validate, AWeightPartBeforeItsInputPartIsNamed) {
  const auto message = complaint({"zero_bubble", 2, 1, 2}, [](Schedule& s) { std::swap(s.actions[0][2], s.actions[0][3]); });
  EXPECT_HAS(message, "stage 0, action 2 (weight part of the backward of micro-batch 0");
  EXPECT_HAS(message, "its input part has not run yet");
}

TEST(Validate, StagesThatWaitForEachOtherAreNamed) {
  // Stage 0 wants the gradient of micro-batch 0 before it sends micro-batch 1; stage 1 wants micro-batch 1 first.
  const auto message = complaint({"gpipe", 2, 1, 2}, [](Schedule& s) { s.actions[0] = build_schedule({"1f1b", 1, 1, 2}).actions[0]; });
  EXPECT_HAS(message, "stage 0, action 1 (backward of micro-batch 0 in chunk 0) waits for ever for stage 1");
}

TEST(Validate, ASlotUsedTwiceAtOnceIsNamed) {
  const auto message = complaint({"1f1b", 2, 1, 2}, [](Schedule& s) { s.actions[0][1].slot = 0; });
  EXPECT_HAS(message, "stage 0, action 1 (forward of micro-batch 1 in chunk 0, slot 0): the slot still holds micro-batch 0");
}

TEST(Validate, ABackwardFromAnotherSlotIsNamed) {
  EXPECT_HAS(complaint({"1f1b", 2, 1, 2}, [](Schedule& s) { s.actions[0][2].slot = 1; }), "the slot does not hold that micro-batch");
}

TEST(Validate, MoreActivationsThanTheBoundAreNamed) {
  const auto message = complaint({"gpipe", 2, 1, 3}, [](Schedule& s) { s.name = "1f1b"; });
  EXPECT_HAS(message, "1f1b, stage 0, action 2");
  EXPECT_HAS(message, "would hold 3 micro-batches, its bound is 2");
}

TEST(Validate, ChunksAndMicroBatchesThatDoNotExistAreNamed) {
  EXPECT_HAS(complaint({"1f1b", 2, 1, 2}, [](Schedule& s) { s.actions[0][0].chunk = 1; }), "the schedule has 1 chunk");
  EXPECT_HAS(complaint({"1f1b", 2, 1, 2}, [](Schedule& s) { s.actions[0][0].micro_batch = 2; }), "the schedule has 2 micro-batches");
  EXPECT_HAS(complaint({"1f1b", 2, 1, 2}, [](Schedule& s) { s.actions.pop_back(); }), "1 action list for 2 stages");
  EXPECT_HAS(complaint({"forward", 2, 1, 2}, [](Schedule& s) { s.actions[0].push_back({Kind::kBackward, 0, 0, 0}); }), "forward passes only");
}

}  // namespace
}  // namespace optimus::pipeline::test
