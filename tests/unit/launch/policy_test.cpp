#include "optimus/launch/policy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace optimus::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

constexpr ExitCode kLost = ExitCode::kLostRank;

Diagnosis failure(Index step, std::vector<std::string> blamed, ExitCode code = kLost) { return {.code = code, .step = step, .blamed = std::move(blamed)}; }

std::vector<std::string> names(const std::vector<Host>& hosts) {
  std::vector<std::string> all;
  for (const Host& host : hosts) all.push_back(host.name);
  return all;
}

/// Two nodes of two ranks, and two buffer nodes.
class Decisions : public testing::Test {
 protected:
  void make(std::vector<Host> hosts = {{"a"}, {"b"}, {"c"}, {"d"}}, PolicyOptions options = {}) { policy_.emplace(hosts, World{2, 2}, std::move(options)); }
  void SetUp() override { make(); }
  Decision after(const Diagnosis& d, const std::map<std::string, std::string>& unfit = {}) { return policy_->after(d, unfit, now_s_); }
  [[nodiscard]] std::vector<std::string> active() const { return names(policy_->active()); }
  [[nodiscard]] std::vector<std::string> spares() const { return names(policy_->spares()); }
  std::optional<Policy> policy_;
  double now_s_ = 0;
};

TEST_F(Decisions, EndWithTheRunWhereNoNodeIsToBlame) {
  for (const ExitCode code : {ExitCode::kDone, ExitCode::kStoppedBySignal, ExitCode::kConfig, ExitCode::kData, ExitCode::kCheckpoint}) {
    const Decision decision = after(failure(5, {"a"}, code));
    EXPECT_TRUE(decision.is_over);
    EXPECT_EQ(decision.code, code);
    EXPECT_THAT(active(), ElementsAre("a", "b"));
  }
}

TEST_F(Decisions, ReplaceABlamedNodeInItsPlaceAndKeepItAsTheLastSpare) {
  const Decision decision = after(failure(5, {"a"}));
  EXPECT_FALSE(decision.is_over);
  EXPECT_THAT(decision.replaced, ElementsAre(Pair("a", "c")));
  EXPECT_THAT(active(), ElementsAre("c", "b"));
  EXPECT_THAT(spares(), ElementsAre("d", "a"));
}

TEST_F(Decisions, TakeFreshSparesBeforeThoseThatWereBlamed) {
  (void)after(failure(5, {"a"}));
  (void)after(failure(9, {"b"}));
  EXPECT_THAT(active(), ElementsAre("c", "d"));
  (void)after(failure(12, {"c"}));
  EXPECT_THAT(active(), ElementsAre("a", "d"));
}

TEST_F(Decisions, LeaveUnfitNodesOutForGood) {
  const Decision decision = after(failure(5, {}), {{"b", "does not answer"}, {"c", "computes wrong"}});
  EXPECT_THAT(active(), ElementsAre("a", "d"));
  EXPECT_THAT(spares(), ElementsAre());
  EXPECT_THAT(decision.lines, testing::Contains(HasSubstr("node c is not used any more: computes wrong")));
}

TEST_F(Decisions, EndWithThirteenWhenNoNodeIsLeft) {
  (void)after(failure(5, {}), {{"a", "gone"}, {"c", "gone"}});
  const Decision decision = after(failure(9, {"b"}), {{"b", "gone"}});
  EXPECT_TRUE(decision.is_over);
  EXPECT_EQ(decision.code, ExitCode::kNoSpareNode);
  EXPECT_THAT(decision.lines.back(), HasSubstr("1 of 2 nodes can be used"));
  EXPECT_THAT(decision.lines.back(), HasSubstr("--allow-shrink"));
}

TEST_F(Decisions, GiveTheLastSpareToTheUnfitNodeAndNotToOneThatOnlyWaitedForIt) {
  make({{"a"}, {"b"}, {"c"}});
  const Decision decision = after(failure(5, {"a"}), {{"b", "does not answer"}});
  EXPECT_FALSE(decision.is_over);
  EXPECT_THAT(decision.replaced, ElementsAre(Pair("b", "c")));
  EXPECT_THAT(active(), ElementsAre("a", "c"));
  EXPECT_THAT(spares(), ElementsAre());
  EXPECT_THAT(decision.lines, testing::Contains(HasSubstr("node a passed its examination and is used again")));
}

TEST_F(Decisions, ExchangeABlamedNodeAsWellWhereASpareRemains) {
  const Decision decision = after(failure(5, {"a"}), {{"b", "does not answer"}});
  EXPECT_FALSE(decision.is_over);
  EXPECT_THAT(decision.replaced, ElementsAre(Pair("b", "c"), Pair("a", "d")));
  EXPECT_THAT(active(), ElementsAre("d", "c"));
  EXPECT_THAT(spares(), ElementsAre("a"));
}

TEST_F(Decisions, ExchangeTwoBlamedNodesOfWhichOneIsUnfit) {
  const Decision decision = after(failure(5, {"a", "b"}), {{"a", "gone"}});
  EXPECT_THAT(decision.replaced, ElementsAre(Pair("a", "c"), Pair("b", "d")));
  EXPECT_THAT(active(), ElementsAre("c", "d"));
  EXPECT_THAT(spares(), ElementsAre("b"));
}

TEST_F(Decisions, UseAFitNodeAgainWhereThereIsNoOther) {
  make({{"a"}, {"b"}});
  EXPECT_FALSE(after(failure(5, {"a"}, ExitCode::kNonFinite)).is_over);
  EXPECT_THAT(active(), ElementsAre("a", "b"));
  EXPECT_FALSE(after(failure(5, {"a"}, ExitCode::kNonFinite)).is_over);
  const Decision third = after(failure(5, {"a"}, ExitCode::kNonFinite));
  EXPECT_TRUE(third.is_over);
  EXPECT_EQ(third.code, ExitCode::kNoSpareNode);
  EXPECT_THAT(third.lines.back(), HasSubstr("step 5 has failed 3 times on a"));
}

TEST_F(Decisions, CallTheSameStepOnAnotherNodeABugOfTheRun) {
  EXPECT_FALSE(after(failure(5, {"a"}, ExitCode::kNonFinite)).is_over);
  const Decision decision = after(failure(5, {"c"}, ExitCode::kNonFinite));
  EXPECT_TRUE(decision.is_over);
  EXPECT_EQ(decision.code, ExitCode::kNonFinite);
  EXPECT_THAT(decision.lines.back(), HasSubstr("step 5 failed on a and now on c: this is the run's own fault"));
}

TEST_F(Decisions, GoOnWhenAnotherStepFailsOrTheSameInAnotherWay) {
  EXPECT_FALSE(after(failure(5, {"a"})).is_over);
  EXPECT_FALSE(after(failure(6, {"c"})).is_over);
  EXPECT_FALSE(after(failure(6, {"d"}, ExitCode::kNonFinite)).is_over);
}

TEST_F(Decisions, DoNotTakeADeadNodeForABug) {
  EXPECT_FALSE(after(failure(5, {"a"}), {{"a", "gone"}}).is_over);
  EXPECT_FALSE(after(failure(5, {"c"}), {{"c", "gone"}}).is_over);
}

TEST_F(Decisions, GiveUpOnAStepThatFailsThriceWithoutANodeToBlame) {
  EXPECT_FALSE(after(failure(1, {}, ExitCode::kFailure)).is_over);
  EXPECT_FALSE(after(failure(1, {}, ExitCode::kFailure)).is_over);
  const Decision decision = after(failure(1, {}, ExitCode::kFailure));
  EXPECT_TRUE(decision.is_over);
  EXPECT_EQ(decision.code, ExitCode::kFailure);
}

TEST_F(Decisions, WaitLongerForEachFailureWithoutProgress) {
  EXPECT_EQ(after(failure(5, {})).delay_s, 1);
  EXPECT_EQ(after(failure(5, {})).delay_s, 2);
  EXPECT_EQ(after(failure(4, {})).delay_s, 4);
  EXPECT_EQ(after(failure(9, {})).delay_s, 1);
}

TEST_F(Decisions, KeepToTheNumberOfRestarts) {
  make({{"a"}, {"b"}}, {.max_restarts = 2});
  EXPECT_FALSE(after(failure(1, {})).is_over);
  EXPECT_FALSE(after(failure(2, {})).is_over);
  const Decision decision = after(failure(3, {}));
  EXPECT_TRUE(decision.is_over);
  EXPECT_EQ(decision.code, kLost);
  EXPECT_THAT(decision.lines.back(), HasSubstr("--max-restarts"));
}

TEST_F(Decisions, KeepToTheNumberOfRestartsInAnHour) {
  make({{"a"}, {"b"}}, {.restarts_per_hour = 2});
  EXPECT_FALSE(after(failure(1, {})).is_over);
  now_s_ = 1800;
  EXPECT_FALSE(after(failure(2, {})).is_over);
  now_s_ = 3601;
  EXPECT_FALSE(after(failure(3, {})).is_over) << "the first is more than an hour ago";
  now_s_ = 3602;
  EXPECT_TRUE(after(failure(4, {})).is_over);
}

TEST_F(Decisions, ShrinkToWhatTheConfigurationFits) {
  make({{"a"}, {"b"}}, {.may_shrink = true, .problem_with = [](Index ranks) { return ranks == 2 ? "" : "no"; }});
  const Decision decision = after(failure(5, {}), {{"a", "gone"}});
  EXPECT_FALSE(decision.is_over);
  EXPECT_THAT(active(), ElementsAre("b"));
  EXPECT_EQ(policy_->world().ranks(), 2);
  EXPECT_THAT(decision.lines, testing::Contains(HasSubstr("goes on with 1 node (2 ranks) instead of 2")));
}

TEST_F(Decisions, ShrinkToTheBlamedNodeIfItIsTheOneThatIsFit) {
  make({{"a"}, {"b"}}, {.may_shrink = true, .problem_with = [](Index) { return ""; }});
  EXPECT_FALSE(after(failure(5, {"a"}), {{"b", "gone"}}).is_over);
  EXPECT_THAT(active(), ElementsAre("a"));
}

TEST_F(Decisions, DoNotShrinkToWhatDoesNotFit) {
  make({{"a"}, {"b"}}, {.may_shrink = true, .problem_with = [](Index ranks) { return "no batch for " + std::to_string(ranks); }});
  const Decision decision = after(failure(5, {}), {{"a", "gone"}});
  EXPECT_TRUE(decision.is_over);
  EXPECT_EQ(decision.code, ExitCode::kNoSpareNode);
  EXPECT_THAT(decision.lines.back(), HasSubstr("no batch for 2"));
}

TEST(Backoff, DoublesUpToItsLimit) {
  EXPECT_EQ(backoff_s(1, 1, 300), 1);
  EXPECT_EQ(backoff_s(4, 1, 300), 8);
  EXPECT_EQ(backoff_s(1000, 1, 300), 300);
  EXPECT_EQ(backoff_s(5, 0, 300), 0);
}

}  // namespace
}  // namespace optimus::launch
