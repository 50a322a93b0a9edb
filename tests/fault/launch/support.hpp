#pragma once
// A toy run under the supervisor, in the background, and the same run undisturbed.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <optional>
#include <thread>

#include "optimus/base/file.hpp"
#include "optimus/base/timer.hpp"
#include "optimus/launch/marked.hpp"
#include "optimus/launch/process.hpp"
#include "tests/support/cli_testing.hpp"

#define EXPECT_HAS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << "no \"" << (part) << "\" in: " << (text)

namespace optimus::test {

constexpr double kWatchdog_s = 5;

class Supervised : public testing::Test {
 protected:
  void SetUp() override {
    use_memory_for_files();
    folder_ = fresh_folder();
    config_ = write_toy_config(folder_, prepare_ids(folder_, some_ids(16 * 30 + 1, 61), 16));
    run_ = folder_ / "run";
  }
  void TearDown() override { EXPECT_TRUE(ranks().empty()) << "a process of the run is left"; }

  /// Long enough that a fault meets it under way: 60 steps, each saved.
  [[nodiscard]] std::vector<std::string> pretrain(const std::filesystem::path& run_dir, const std::vector<std::string>& settings) const {
    std::vector<std::string> words = {"pretrain", config_.string()};
    std::vector<std::string> all = {"run.dir=" + run_dir.string(), "run.steps=60", "checkpoint.interval=1", "log.interval=20",
                                    "fault_tolerance.watchdog_s=" + std::to_string(kWatchdog_s)};
    all.insert(all.end(), settings.begin(), settings.end());
    for (const std::string& setting : all) words.insert(words.end(), {"--set", setting});
    return words;
  }
  void start(const std::vector<std::string>& options, const std::vector<std::string>& settings = {}) {
    std::vector<std::string> words = {"launch"};
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back("--");
    const auto command = pretrain(run_, settings);
    words.insert(words.end(), command.begin(), command.end());
    supervisor_.emplace(std::vector<std::string>{"sh", "-c", "OMP_NUM_THREADS=1 exec " + optimus_command(words) + " 2>>" + (folder_ / "err").string()},
                        launch::Process::Options{});
  }
  [[nodiscard]] int end(double limit_s = 150) {
    wait_for([this] { return supervisor_->poll().has_value(); }, limit_s);
    return supervisor_.has_value() ? supervisor_->poll().value_or(-1) : -1;
  }
  template <class Condition> static void wait_for(Condition condition, double limit_s = 60) {
    const Timer timer;
    while (!condition() && timer.seconds() < limit_s) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ASSERT_TRUE(condition());
  }
  [[nodiscard]] std::size_t steps_done() const { return std::filesystem::exists(run_ / "metrics.jsonl") ? read_metrics_safely() : 0; }
  void wait_for_step(std::size_t step) const {
    wait_for([&] { return steps_done() >= step; });
  }
  /// Processes of the run's ranks.
  [[nodiscard]] std::vector<pid_t> ranks() const { return launch::marked_processes(launch::mark_of(run_.string())); }
  [[nodiscard]] std::string err() const { return read_file(folder_ / "err"); }
  /// What the supervisor says that the first failure ended with; -1 if it says nothing.
  [[nodiscard]] int exit_code_of_first_start() const {
    const std::string text = err();
    int code = -1;
    std::sscanf(text.c_str() + std::min(text.size(), text.find("the run failed (exit code ")), "the run failed (exit code %d", &code);
    return code;
  }

  /// The same run, by ranks that nobody disturbs, has the same lines.
  void expect_same_as_undisturbed(const std::vector<std::string>& settings = {}, int ranks = 2, std::size_t steps = 60) const {
    const auto calm = folder_ / "calm";
    const auto result = run_optimus(pretrain(calm, settings), ranks);
    ASSERT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(metrics_without_times(run_), metrics_without_times(calm));
    EXPECT_EQ(read_metrics(run_).size(), steps);
  }

  std::filesystem::path folder_, config_, run_;
  std::optional<launch::Process> supervisor_;

 private:
  [[nodiscard]] std::size_t read_metrics_safely() const {
    const std::string text = read_file(run_ / "metrics.jsonl");
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  }
};

}  // namespace optimus::test
