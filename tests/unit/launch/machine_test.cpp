// What touches this machine: processes, marks, the self-test, a node's report.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "optimus/base/error.hpp"
#include "optimus/base/timer.hpp"
#include "optimus/launch/attempt.hpp"
#include "optimus/launch/marked.hpp"
#include "optimus/launch/nodes.hpp"
#include "optimus/launch/process.hpp"
#include "optimus/launch/self_test.hpp"

namespace optimus::launch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(SelfTest, GivesTheKnownChecksumOnThisMachine) {
  EXPECT_EQ(self_test_round(), kSelfTestChecksum);
  const SelfTestResult result = run_self_test(0, 3);
  EXPECT_EQ(result.threads, 3);
  EXPECT_EQ(result.rounds, 3) << "at least one on each thread";
  EXPECT_EQ(result.wrong_rounds, 0);
}

TEST(SelfTest, CountsEveryRoundWithAnotherResult) { EXPECT_EQ(run_self_test(0, 2, kSelfTestChecksum ^ 1).wrong_rounds, 2); }

TEST(Commands, RunBesideEachOtherAndKeepTheirOrder) {
  const Timer timer;
  const auto results = run_commands({{"sh", "-c", "sleep 0.3; echo one"}, {"sh", "-c", "echo two >&2; exit 7"}, {"/no/such/program"}}, 20);
  EXPECT_EQ(results[0].out, "one\n");
  EXPECT_EQ(results[1].err, "two\n");
  EXPECT_EQ(results[1].code, 7);
  EXPECT_EQ(results[2].code, 127);
}

TEST(Commands, AreKilledAtTheirLimitWithAllTheyStarted) {
  const Timer timer;
  const auto result = run_commands({{"sh", "-c", "sleep 100 & sleep 100"}}, 0.2).front();
  EXPECT_TRUE(result.is_timed_out);
  EXPECT_EQ(result.code, 128 + SIGKILL);
  EXPECT_LT(timer.seconds(), 20);
}

TEST(Commands, WithLongOutputDoNotStop) {
  const auto result = run_commands({{"sh", "-c", "head -c 1000000 /dev/zero | tr '\\0' x"}}, 20).front();
  EXPECT_EQ(result.out.size(), 1000000U);
}

TEST(ShellLine, ComesBackUnchangedFromAShell) {
  const std::vector<std::string> words = {"a", "b c", "it's", "$HOME", "", "--set=x=[1,2]", "\"q\"", "*"};
  std::vector<std::string> command = {"printf", "%s\\n"};
  command.insert(command.end(), words.begin(), words.end());
  EXPECT_EQ(run_commands({{"sh", "-c", shell_line(command)}}, 20).front().out, "a\nb c\nit's\n$HOME\n\n--set=x=[1,2]\n\"q\"\n*\n");
}

TEST(CommandOn, GoesThroughTheAgentUnlessItIsHere) {
  EXPECT_THAT(command_on({"/bin/agent", "me"}, "far", {"me", "a b"}), ElementsAre("/bin/agent", "far", "me 'a b'"));
  EXPECT_THAT(command_on({"/bin/agent", "me"}, "localhost", {"me", "a b"}), ElementsAre("me", "a b"));
  EXPECT_EQ(command_on({"", "me"}, "far", {"me"}).front(), "ssh");
}

std::string mark_for(const char* test) { return "test-" + std::to_string(::getpid()) + "-" + test; }

void wait_until_marked(const std::string& mark, std::size_t count) {
  const Timer timer;
  while (marked_processes(mark).size() != count && timer.seconds() < 20) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ASSERT_EQ(marked_processes(mark).size(), count);
}

TEST(Marked, ProcessesAreFoundWhereverTheyHang) {
  const std::string mark = mark_for("found");
  Process process({"env", std::string(kMark) + "=" + mark, "setsid", "-w", "sleep", "100"}, {});
  wait_until_marked(mark, 2);  // setsid and its child, out of our process group
  EXPECT_TRUE(marked_processes(mark + "x").empty());
  EXPECT_TRUE(marked_processes(mark.substr(0, mark.size() - 1)).empty());
  Index left = -1;
  EXPECT_EQ(kill_marked(mark, 10, left), 2);
  EXPECT_EQ(left, 0);
  EXPECT_TRUE(marked_processes(mark).empty());
}

TEST(Marked, ProcessesAreKilledEvenWhenStopped) {
  const std::string mark = mark_for("stopped");
  Process process({"env", std::string(kMark) + "=" + mark, "sleep", "100"}, {});
  wait_until_marked(mark, 1);
  EXPECT_EQ(signal_marked(mark, SIGSTOP), 1);
  Index left = -1;
  EXPECT_EQ(kill_marked(mark, 10, left), 1);
  EXPECT_EQ(left, 0);
}

TEST(Patience, IsLongerThanTheRunsOwn) {
  EXPECT_EQ(patience_s(5), 15);
  EXPECT_EQ(patience_s(600), 610);
}

class Report : public testing::Test {
 protected:
  NodeReport good_{.host = "n", .threads = 4, .memory_bytes = 100, .available_bytes = 90, .disk_free_bytes = 50, .rounds = 9};
  NodeNeeds needs_{.run_dir = "/runs/x", .memory_bytes = 80, .disk_bytes = 40};
};

TEST_F(Report, ComesBackFromItsText) {
  for (const char* banner : {"Welcome to n!\n", "{hello} {\"load\": 3}\n", "no line break "})
    EXPECT_EQ(to_json(parse_node_report(banner + to_json(good_) + "\n")), to_json(good_)) << banner;
  const NodeReport back = parse_node_report(to_json(good_));
  EXPECT_EQ(problem_of(back, needs_), "");
}

TEST(NodeCount, IsTheLastLineOfTheAnswer) {
  EXPECT_EQ(parse_count("3\n"), 3);
  EXPECT_EQ(parse_count("Welcome to n7!\n4 users\n\n12\r\n"), 12) << "what login scripts print is no count";
  for (const char* answer : {"", "\n", "Welcome to n7!\n", "3 processes", "-1", "99999999999999999999", "0x3"}) EXPECT_FALSE(parse_count(answer)) << answer;
}

TEST_F(Report, ThatIsNoneIsAnError) {
  EXPECT_THROW((void)parse_node_report(""), Error);
  EXPECT_THROW((void)parse_node_report("command not found"), Error);
  EXPECT_THROW((void)parse_node_report("{\"host\": 3}"), Error);
}

TEST_F(Report, OfAnUnfitNodeSaysWhy) {
  const auto with = [this](auto change) {
    NodeReport report = good_;
    change(report);
    return problem_of(report, needs_);
  };
  EXPECT_THAT(with([](NodeReport& r) { r.wrong_rounds = 1; }), HasSubstr("computes wrong: 1 of 9 rounds"));
  EXPECT_THAT(with([](NodeReport& r) { r.available_bytes = 79; }), HasSubstr("memory"));
  EXPECT_THAT(with([](NodeReport& r) { r.disk_free_bytes = 39; }), HasSubstr("a checkpoint takes"));
  EXPECT_THAT(with([](NodeReport& r) { r.write_problem = "read-only"; }), HasSubstr("read-only"));
  EXPECT_THAT(with([](NodeReport& r) { r.unkillable = 2; }), HasSubstr("2 processes"));
}

TEST_F(Report, OfThisMachineIsGood) {
  needs_ = {.run_dir = std::filesystem::temp_directory_path().string(), .self_test_s = 0};
  EXPECT_EQ(problem_of(examine_node(needs_), needs_), "");
  needs_.run_dir = "/no/such/folder";
  EXPECT_THAT(problem_of(examine_node(needs_), needs_), HasSubstr("/no/such/folder is not there"));
}

}  // namespace
}  // namespace optimus::launch
