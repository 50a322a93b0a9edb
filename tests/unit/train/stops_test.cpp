#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <thread>
#include <vector>

#include "optimus/ops/loss.hpp"
#include "optimus/train/batch.hpp"
#include "optimus/train/signals.hpp"
#include "optimus/train/stop_conditions.hpp"
#include "optimus/train/watchdog.hpp"

namespace optimus {
namespace {

TEST(Signals, AreNotedOnceAndThenHaveTheirUsualEffect) {
  {
    const SignalWatch watch({"SIGUSR1"});
    EXPECT_EQ(SignalWatch::received(), 0);
    std::raise(SIGUSR1);
    EXPECT_EQ(SignalWatch::received(), SIGUSR1);
    struct sigaction now{};
    sigaction(SIGUSR1, nullptr, &now);
    EXPECT_EQ(now.sa_handler, SIG_DFL) << "a second one ends the process";
  }
  EXPECT_FALSE(parse_signal("SIGKILL")) << "cannot be caught";
  EXPECT_EQ(parse_signal("SIGTERM"), SIGTERM);
}

TEST(Watchdog, LeavesTimeForTheEndWithinTenSeconds) {
  EXPECT_DOUBLE_EQ(step_limit_s(10), 12);
  EXPECT_DOUBLE_EQ(step_limit_s(600), 605);
}

TEST(Watchdog, SaysWhatWasGoingOn) {
  std::atomic<bool> has_expired = false;
  std::string what;
  {
    Watchdog watchdog(0.05, [&](const std::string& doing) {
      what = doing;
      has_expired = true;
    });
    watchdog.beat("step 3, reduce");
    for (int i = 0; i < 200 && !has_expired; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(has_expired);
  EXPECT_EQ(what, "step 3, reduce");
}

TEST(Watchdog, StaysQuietWhileThereIsProgress) {
  std::atomic<bool> has_expired = false;
  {
    Watchdog watchdog(5, [&](const std::string&) { has_expired = true; });
    watchdog.beat("step 1");
  }
  EXPECT_FALSE(has_expired);
}

TEST(StopConditions, KnowTheBatchSystemsEnd) {
  ::unsetenv("SLURM_JOB_END_TIME");
  ::unsetenv("PBS_WALLTIME");
  EXPECT_FALSE(StopConditions(60).is_time_up());
  ::setenv("SLURM_JOB_END_TIME", std::to_string(std::time(nullptr) + 30).c_str(), 1);
  EXPECT_TRUE(StopConditions(60).is_time_up());
  EXPECT_FALSE(StopConditions(10).is_time_up());
  EXPECT_FALSE(StopConditions(0).is_time_up());
  ::unsetenv("SLURM_JOB_END_TIME");
  ::setenv("PBS_WALLTIME", "30", 1);
  EXPECT_TRUE(StopConditions(60).is_time_up());
  EXPECT_FALSE(StopConditions(10).is_time_up());
  ::unsetenv("PBS_WALLTIME");
}

TEST(StopConditions, ReadTimesAsBatchSystemsWriteThem) {
  EXPECT_EQ(parse_seconds("86400"), 86400);
  EXPECT_EQ(parse_seconds("0.5"), 0.5);
  EXPECT_EQ(parse_seconds("24:00:00"), 86400) << "not 24 seconds";
  EXPECT_EQ(parse_seconds("01:30"), 90);
  for (const char* text : {"", " ", "x", "-5", "nan", "inf", "1e400", "99999999999999999999", "10:", ":10", "1:2:3:4", "1:-2", "10 h", "1e3x"})
    EXPECT_FALSE(parse_seconds(text)) << text;
  ::setenv("PBS_WALLTIME", "nan", 1);
  EXPECT_FALSE(job_end());
  ::setenv("PBS_WALLTIME", "00:00:30", 1);
  EXPECT_TRUE(StopConditions(60).is_time_up());
  EXPECT_FALSE(StopConditions(10).is_time_up());
  ::unsetenv("PBS_WALLTIME");
}

TEST(Batch, ShiftsLabelsAndLeavesOutWhatFollowsADocumentsEnd) {
  Batch batch(2, 3, 9);
  const std::array<std::int32_t, 8> ids = {1, 9, 2, 3, 9, 9, 9, 4};
  batch.set(ids);
  EXPECT_EQ(batch.valid_labels(), 2);
  const MicroBatch all = batch.rows(0, 2);
  constexpr auto kNone = ops::kIgnoredLabel;
  EXPECT_EQ(std::vector<std::int32_t>(all.inputs.begin(), all.inputs.end()), (std::vector<std::int32_t>{1, 9, 2, 9, 9, 9}));
  EXPECT_EQ(std::vector<std::int32_t>(all.labels.begin(), all.labels.end()), (std::vector<std::int32_t>{9, kNone, 3, kNone, kNone, kNone}));
  EXPECT_EQ(batch.rows(1, 2).inputs[0], 9);
  EXPECT_EQ(batch.rows(1, 2).sequences, 1);
}

}  // namespace
}  // namespace optimus
