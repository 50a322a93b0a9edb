#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/cli_testing.hpp"

#define EXPECT_HAS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << "no \"" << (part) << "\" in: " << (text)

namespace optimus::test {
namespace {

class LaunchCommand : public testing::Test {
 protected:
  void expect_refused(const std::vector<std::string>& args, const char* part) const {
    std::vector<std::string> words = {"launch"};
    words.insert(words.end(), args.begin(), args.end());
    const ProgramResult result = run_optimus(words);
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_HAS(result.err, part);
    EXPECT_FALSE(std::filesystem::exists(folder_ / "run")) << "nothing is made for a run that cannot be";
  }
  std::filesystem::path folder_ = fresh_folder(), config_ = write_toy_config(folder_, folder_ / "data");
};

TEST_F(LaunchCommand, RefusesWhatItCannotStart) {
  const std::string config = config_.string();
  expect_refused({}, "command");
  expect_refused({"--ranks", "2", "--", "prepare"}, "it starts \"pretrain\" only, not \"prepare\"");
  expect_refused({"--ranks", "2", "--", "pretrain"}, "config");
  expect_refused({"--ranks", "2", "--", "pretrain", config, "--nonsense"}, "--nonsense");
  expect_refused({"--ranks", "2", "--", "pretrain", config, "--dry-run"}, "a dry run needs no launch");
  expect_refused({"--", "pretrain", config}, "--ranks");
}

TEST_F(LaunchCommand, RefusesNumbersAndHostsThatAreNone) {
  const std::string config = config_.string();
  expect_refused({"--ranks", "0", "--", "pretrain", config}, "--ranks");
  expect_refused({"--ranks", "-1", "--", "pretrain", config}, "--ranks");
  expect_refused({"--ranks", "4", "--nodes", "3", "--", "pretrain", config}, "4 ranks cannot be divided over 3 nodes");
  expect_refused({"--ranks", "4", "--nodes", "2", "--", "pretrain", config}, "the run needs 2 nodes, the list of hosts has 1");
  expect_refused({"--ranks", "2", "--hostfile", (folder_ / "none").string(), "--", "pretrain", config}, "none");
  std::ofstream(folder_ / "hosts") << "# nobody\n";
  expect_refused({"--ranks", "2", "--hostfile", (folder_ / "hosts").string(), "--", "pretrain", config}, "names no host");
  expect_refused({"--ranks", "2", "--starter", "no-such-starter", "--", "pretrain", config}, "no-such-starter");
  expect_refused({"--ranks", "2", "--agent", "/a path/agent", "--", "pretrain", config}, "has a space in its path");
  expect_refused({"--ranks", "2", "--starter", "true", "--", "pretrain", config}, "no starter that is known here");
}

TEST_F(LaunchCommand, RefusesAConfigurationThatDoesNotFitTheRanks) {
  expect_refused({"--ranks", "3", "--", "pretrain", config_.string()}, "batch.global_batch");
  expect_refused({"--ranks", "2", "--", "pretrain", config_.string(), "--set", "optimizer.lr=fast"}, "optimizer.lr");
  expect_refused({"--ranks", "2", "--", "pretrain", (folder_ / "none.toml").string()}, "none.toml");
}

}  // namespace
}  // namespace optimus::test
