// The supervisor with a starter and an agent that are scripts of this folder: every decision, without waiting for ranks.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <thread>

#include "optimus/base/file.hpp"
#include "optimus/base/timer.hpp"
#include "optimus/launch/marked.hpp"
#include "optimus/launch/process.hpp"
#include "tests/support/cli_testing.hpp"

#define EXPECT_HAS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << "no \"" << (part) << "\" in: " << (text)

namespace optimus::test {
namespace {

class Launch : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fresh_folder();
    config_ = write_toy_config(folder_, folder_ / "data");
    ::setenv("FAKE", folder_.c_str(), 1);
    hosts({"a", "b", "c"});
  }
  void TearDown() override { EXPECT_TRUE(launch::marked_processes(launch::mark_of((folder_ / "run").string())).empty()); }

  void hosts(const std::vector<std::string>& names) const {
    std::ofstream out(folder_ / "hosts");
    for (const std::string& name : names) out << name << "\n";
  }
  void plan(const std::vector<std::string>& lines) const {
    std::ofstream out(folder_ / "plan");
    for (const std::string& line : lines) out << line << "\n";
  }
  void mark(const char* what) const { std::ofstream(folder_ / what) << "\n"; }
  [[nodiscard]] std::vector<std::string> args(const std::vector<std::string>& options, const std::vector<std::string>& settings = {}) const {
    const std::filesystem::path fakes = FAKES;
    std::vector<std::string> all = {"launch",
                                    "--hostfile",
                                    (folder_ / "hosts").string(),
                                    "--ranks-per-node",
                                    "1",
                                    "--agent",
                                    (fakes / "fake_agent").string(),
                                    "--starter",
                                    (fakes / "fake_starter").string(),
                                    "--backoff",
                                    "0"};
    all.insert(all.end(), options.begin(), options.end());
    all.insert(all.end(), {"--", "pretrain", config_.string()});
    for (const std::string& setting : settings) all.insert(all.end(), {"--set", setting});
    return all;
  }
  [[nodiscard]] ProgramResult run(const std::vector<std::string>& options, const std::vector<std::string>& settings = {}) const {
    return run_optimus(args(options, settings));
  }
  [[nodiscard]] std::string file(const char* name) const { return fs::exists(folder_ / name) ? read_file(folder_ / name) : ""; }

  std::filesystem::path folder_, config_;
};

TEST_F(Launch, StartsTheRunOnTheFirstNodesAndEndsWithIt) {
  plan({"steps 3"});
  const auto result = run({"--nodes", "2"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(file("starts"), "2 ranks on a slots=1 b slots=1 \n");
  EXPECT_HAS(file("command"), " pretrain ");
  EXPECT_HAS(result.err, "2 ranks on 2 nodes: a, b; 1 buffer node");
  EXPECT_HAS(file("run/launch.log"), "the run is done");
  EXPECT_EQ(result.out, "");
}

TEST_F(Launch, ReplacesTheNodeThatYieldedNoNumber) {
  plan({"fail 10 nan 1 b.cluster 5", "ok"});
  const auto result = run({"--nodes", "2"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(file("starts"), "2 ranks on a slots=1 b slots=1 \n2 ranks on a slots=1 c slots=1 \n");
  EXPECT_HAS(result.err, "nan on rank 1 (b) in step 5");
  EXPECT_HAS(result.err, "node b is replaced by c");
  EXPECT_HAS(file("run/failures.jsonl"), R"("host":"b","kind":"replaced","message":"c takes its place","hosts":["b","c"])");
  EXPECT_HAS(file("run/failures.jsonl"), R"("kind":"restart")");
}

TEST_F(Launch, ReplacesANodeThatIsGone) {
  plan({"exit 137", "ok"});
  // The node dies while the run is on: the start sees to it.
  std::ofstream(folder_ / "die.sh") << "#!/bin/bash\n[ \"$1\" = --version ] || touch \"$FAKE/dead-a\"\nexec " FAKES "/fake_starter \"$@\"\n";
  fs::permissions(folder_ / "die.sh", fs::perms::owner_all);
  auto words = args({"--nodes", "2"});
  words[8] = (folder_ / "die.sh").string();
  const auto healed = run_optimus(words);
  EXPECT_EQ(healed.code, 0) << healed.err;
  EXPECT_EQ(file("starts"), "2 ranks on a slots=1 b slots=1 \n2 ranks on c slots=1 b slots=1 \n");
  EXPECT_HAS(healed.err, "node a is not used any more: cannot be asked (exit code 255): No route to a");
}

TEST_F(Launch, NeverTriesMistakesOfTheUserAgain) {
  for (const int code : {2, 3, 4}) {
    fs::remove(folder_ / "starts");
    plan({"exit " + std::to_string(code), "ok"});
    EXPECT_EQ(run({"--nodes", "2"}).code, code);
    EXPECT_EQ(file("starts"), "2 ranks on a slots=1 b slots=1 \n");
  }
}

TEST_F(Launch, LeavesOutNodesThatComputeWrongOrDoNotAnswer) {
  plan({"ok"});
  mark("wrong-a");
  mark("silent-b");
  const auto result = run({"--nodes", "1", "--probe-limit", "1"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(file("starts"), "1 ranks on c slots=1 \n");
  EXPECT_HAS(result.err, "node a is left out: computes wrong: 3 of 9 rounds");
  EXPECT_HAS(result.err, "node b is left out: does not answer within 1 s");
}

TEST_F(Launch, EndsWithThirteenWhereTooFewNodesAreLeft) {
  mark("dead-a");
  mark("dead-b");
  const auto result = run({"--nodes", "2"});
  EXPECT_EQ(result.code, 13) << result.err;
  EXPECT_HAS(result.err, "the run needs 2 nodes, 1 can be used");
  EXPECT_FALSE(fs::exists(folder_ / "starts"));
}

TEST_F(Launch, GoesOnWithAsManyNodesAsTheBatchDividesOver) {
  hosts({"a", "b", "c", "d"});
  plan({"ok"});
  mark("dead-d");
  const auto result = run({"--nodes", "4", "--allow-shrink"});  // a global batch of 8
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(file("starts"), "2 ranks on a slots=1 b slots=1 \n");
  EXPECT_HAS(result.err, "starts with 2 nodes (2 ranks) instead of 4, with the same global batch");
}

TEST_F(Launch, TakesAFullDiskForNoNodesFault) {
  mark("full");
  const auto result = run({"--nodes", "2"});
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_HAS(result.err, "no node can use the run folder");
  EXPECT_HAS(result.err, "a checkpoint takes");
}

TEST_F(Launch, TellsEveryRankWhenTheBatchJobEnds) {
  plan({"ok"});
  const auto before = std::time(nullptr);
  EXPECT_EQ(run_optimus(args({"--nodes", "1"}), 0, "PBS_WALLTIME=1000").code, 0);
  const std::string command = file("command"), name = "SLURM_JOB_END_TIME=";
  ASSERT_NE(command.find(name), std::string::npos) << command;
  EXPECT_NEAR(std::strtod(command.c_str() + command.find(name) + name.size(), nullptr), static_cast<double>(before) + 1000, 30);
}

TEST_F(Launch, KeepsTheLastWordsOfARunThatLeftNoOthers) {
  plan({"exit 1 error: [file] cannot write x", "ok"});
  EXPECT_EQ(run({"--nodes", "1"}).code, 0);
  EXPECT_HAS(file("run/launch.log"), "left no word about the cause in failures.jsonl; it said:\nerror: [file] cannot write x");
  plan({"exit 3 error: [data] no such folder"});
  fs::remove(folder_ / "starts");
  EXPECT_EQ(run({"--nodes", "1"}).code, 3);
  EXPECT_HAS(file("run/launch.log"), "error: [data] no such folder");
}

TEST_F(Launch, StopsAtABugOfTheRun) {
  plan({"fail 10 nan 0 a 5", "fail 10 nan 0 c 5", "ok"});
  const auto result = run({"--nodes", "2"});
  EXPECT_EQ(result.code, 10);
  EXPECT_HAS(result.err, "step 5 failed on a and now on c: this is the run's own fault");
}

TEST_F(Launch, StopsAfterAsManyRestartsAsItMay) {
  plan({"fail 11 lost 0 a 5", "fail 11 lost 0 b 6", "fail 11 lost 0 a 7"});
  const auto result = run({"--nodes", "1", "--max-restarts", "2"});
  EXPECT_EQ(result.code, 11) << result.err;
  EXPECT_HAS(result.err, "--max-restarts allows no more than 2 restarts");
}

TEST_F(Launch, StartsAFirstStartsResumeOnlyUntilThereIsACheckpoint) {
  plan({"exit 1", "ok"});
  std::ofstream(folder_ / "save.sh")
      << "#!/bin/bash\n[ \"$1\" = --version ] || { mkdir -p \"$FAKE/run/checkpoints\"; sleep 0.02; echo slot-0 > \"$FAKE/run/checkpoints/latest\"; "
         "}\nexec " FAKES "/fake_starter \"$@\"\n";
  fs::permissions(folder_ / "save.sh", fs::perms::owner_all);
  auto words = args({"--nodes", "1"}, {"run.resume=never"});
  words[8] = (folder_ / "save.sh").string();
  EXPECT_EQ(run_optimus(words).code, 0);
  EXPECT_HAS(file("command"), "--set run.resume=never --resume auto");
  plan({"exit 1", "ok"});
  fs::remove(folder_ / "starts");
  words = args({"--nodes", "1"});
  words[8] = (folder_ / "save.sh").string();
  words.insert(words.end(), {"--resume", "never", "--set", "run.seed=2"});
  EXPECT_EQ(run_optimus(words).code, 0);
  EXPECT_HAS(file("command"), "--set run.seed=2 --resume auto");
  EXPECT_EQ(file("command").find("never"), std::string::npos) << file("command");
}

/// A supervisor in the background, for signals.
class Signals : public Launch {
 protected:
  void start() {
    plan({"wait"});
    words_ = "exec " + optimus_command(args({"--nodes", "1"})) + " 2>" + (folder_ / "err").string();
    process_.emplace(std::vector<std::string>{"sh", "-c", words_}, launch::Process::Options{});
    wait_for([this] { return fs::exists(folder_ / "waits"); });
  }
  template <class Condition> static void wait_for(Condition condition) {
    const Timer timer;
    while (!condition() && timer.seconds() < 60) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_TRUE(condition());
  }
  int end() {
    wait_for([this] { return code().has_value(); });
    return code().value_or(-1);
  }
  [[nodiscard]] std::optional<int> code() { return process_ ? process_->poll() : std::nullopt; }
  void send(int signal) const {
    if (process_) ::kill(process_->pid(), signal);
  }
  std::string words_;
  std::optional<launch::Process> process_;
};

TEST_F(Signals, TheFirstMakesTheRanksSaveAndEndsWithTwelve) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    fs::remove(folder_ / "waits");
    fs::remove(folder_ / "starts");
    start();
    send(signal);
    EXPECT_EQ(end(), 12) << file("err");
    EXPECT_HAS(file("err"), "asked to save and end");
  }
}

TEST_F(Signals, TheSecondEndsEverythingAtOnce) {
  start();
  // Ranks that do not react: the first signal finds them stopped.
  (void)launch::signal_marked(launch::mark_of((folder_ / "run").string()), SIGSTOP);
  send(SIGTERM);
  wait_for([this] { return file("err").find("asked to save and end") != std::string::npos; });
  send(SIGTERM);
  EXPECT_EQ(end(), 128 + SIGTERM) << file("err");
}

TEST_F(Signals, ThatAreIgnoredStayIgnored) {
  plan({"wait"});
  process_.emplace(std::vector<std::string>{"sh", "-c", "trap '' HUP; exec " + optimus_command(args({"--nodes", "1"})) + " 2>" + (folder_ / "err").string()},
                   launch::Process::Options{});
  wait_for([this] { return fs::exists(folder_ / "waits"); });
  send(SIGHUP);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_FALSE(code().has_value());
  EXPECT_EQ(file("err").find("signal 1"), std::string::npos) << file("err");
  send(SIGTERM);
  EXPECT_EQ(end(), 12) << file("err");
}

/// The longest test here: the supervisor's own limit is ten seconds above the run's.
TEST_F(Launch, EndsARunWithoutASignOfLife) {
  plan({"wait", "ok"});
  const Timer timer;
  const auto result = run({"--nodes", "1"}, {"fault_tolerance.watchdog_s=0.5"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_HAS(result.err, "no sign of life for 10 s");
  EXPECT_HAS(result.err, "was ended from outside");
  EXPECT_GT(timer.seconds(), 10);
}

TEST_F(Launch, EndsAStarterThatLostANodeAndOutlivesItsRanks) {
  plan({"lose b", "ok"});
  const auto result = run({"--nodes", "2"}, {"fault_tolerance.watchdog_s=600"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_HAS(result.err, "the ranks are gone, but");
  EXPECT_HAS(result.err, "the starter did not end by itself");
  EXPECT_HAS(result.err, "node b is replaced by c");
}

TEST_F(Signals, ASecondSupervisorInTheSameFolderIsRefused) {
  start();
  const auto result = run({"--nodes", "1"});
  EXPECT_EQ(result.code, 2);
  EXPECT_HAS(result.err, "another optimus launch works in");
  send(SIGTERM);
  EXPECT_EQ(end(), 12);
}

}  // namespace
}  // namespace optimus::test
