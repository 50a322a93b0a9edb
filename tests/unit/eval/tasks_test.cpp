#include "optimus/eval/tasks.hpp"

#include <gtest/gtest.h>

namespace optimus {
namespace {

LikelihoodRequest choice(Index doc_id, Index index, Index label, std::string continuation) {
  return {.task_name = "task", .doc_id = doc_id, .choice = index, .label = label, .context = "c", .continuation = std::move(continuation), .origin = ""};
}

TEST(Tasks, PicksTheLargestLogprobAndTheLargestPerCharacter) {
  // " ab" has 2 characters, " abcdefgh" 8: -4/2 = -2, -6/8 = -0.75.
  const std::vector<LikelihoodRequest> requests = {choice(0, 0, 1, " ab"), choice(0, 1, 1, " abcdefgh")};
  const std::vector<RequestScore> scores = {{.logprob = -4}, {.logprob = -6}};
  const auto result = score_tasks(requests, scores);
  EXPECT_EQ(result.at("task").documents, 1);
  EXPECT_EQ(result.at("task").acc, 0.0);
  EXPECT_EQ(result.at("task").acc_norm, 1.0);
}

TEST(Tasks, CountsCodePointsNotBytes) {
  // Two characters of three bytes each against five of one: -6/2 = -3, -14/5 = -2.8; by bytes the first would win (-1).
  const std::vector<LikelihoodRequest> requests = {choice(0, 0, 1, " \u65e5\u672c"), choice(0, 1, 1, " abcde")};
  const std::vector<RequestScore> scores = {{.logprob = -6}, {.logprob = -14}};
  EXPECT_EQ(score_tasks(requests, scores).at("task").acc_norm, 1.0);
}

TEST(Tasks, TheFirstChoiceWinsATie) {
  const std::vector<LikelihoodRequest> requests = {choice(0, 0, 0, " a"), choice(0, 1, 0, " b"), choice(1, 0, 1, " a"), choice(1, 1, 1, " b")};
  const std::vector<RequestScore> scores = {{.logprob = -1}, {.logprob = -1}, {.logprob = -1}, {.logprob = -1}};
  EXPECT_EQ(score_tasks(requests, scores).at("task").acc, 0.5);
}

TEST(Tasks, UnconditionalRequestsAreNoDocuments) {
  const std::vector<LikelihoodRequest> requests = {choice(3, 0, 0, " a"), choice(kUnconditionalOffset + 3, 0, 0, " a")};
  const std::vector<RequestScore> scores = {{.logprob = -1}, {.logprob = -2}};
  EXPECT_EQ(score_tasks(requests, scores).at("task").documents, 1);
}

}  // namespace
}  // namespace optimus
