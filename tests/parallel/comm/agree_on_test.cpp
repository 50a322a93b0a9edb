#include "optimus/comm/agree_on.hpp"

#include "support.hpp"

namespace optimus::test {
namespace {

constexpr const char* kCommon = "[run]\nsteps = 5\n\n[parallel]\ntp = 1\nep = 1\n";
constexpr const char* kOther = "[run]\nsteps = 5\n\n[parallel]\ntp = 2\nep = 1\n";

/// What agree_on throws here; empty if it returns.
std::string message_for(std::string_view text) {
  try {
    agree_on(world(), "configuration", text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::string rank_text(Index rank) { return "rank " + std::to_string(rank); }

void expect_parts(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
}

TEST(AgreeOn, ReturnsWhereAllHaveTheSame) {
  for (const char* text : {"", "one line", kCommon}) EXPECT_EQ(message_for(text), "");
}

TEST(AgreeOn, NamesTheOneThatDiffersOnAllRanks) {
  for (Index odd = 0; odd < world().size(); ++odd) {
    const std::string message = message_for(world().rank() == odd ? kOther : kCommon);
    if (world().size() == 1) {
      EXPECT_EQ(message, "");
    } else if (world().size() == 2) {
      // No majority: the lower rank's is expected.
      expect_parts(message, {"rank 1 has another configuration than rank 0. On rank 1: [parallel] expected \"tp = ", "found \"tp = "});
    } else {
      expect_parts(message, {rank_text(odd) + " has another configuration than " + rank_text(odd == 0 ? 1 : 0) + " and ",
                             "On " + rank_text(odd) + ": [parallel] expected \"tp = 1\", found \"tp = 2\""});
    }
  }
}

TEST(AgreeOn, NamesAllThatDiffer) {
  if (world().size() < 3) return;
  // Everybody has something else: the lowest rank's is expected.
  const std::string message = message_for(std::to_string(world().rank()));
  expect_parts(message, {"ranks 1, 2", " have another configuration than rank 0. On rank 1: expected \"0\", found \"1\""});
}

TEST(AgreeOn, ShowsTheFirstDifferencesAndThatThereAreMore) {
  if (world().size() == 1) return;
  const std::string message = message_for(world().rank() == 0 ? "a\nb\nc\nd\ne\n" : "a\nB\nC\nD\nE\nF\n");
  const bool has_majority_of_others = world().size() > 2;
  expect_parts(message, {has_majority_of_others ? "expected \"B\", found \"b\"" : "expected \"b\", found \"B\"", "; and more"});
  EXPECT_EQ(message.find("\"e\""), std::string::npos) << message;
  const std::string shorter = message_for(world().rank() == 0 ? "a\nb\n" : "a\n");
  expect_parts(shorter, {has_majority_of_others ? "expected nothing, found \"b\"" : "expected \"b\", found nothing"});
}

}  // namespace
}  // namespace optimus::test
