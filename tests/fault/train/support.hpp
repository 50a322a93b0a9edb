#pragma once
// Runs of four ranks in which something goes wrong, in several layouts.

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "optimus/base/timer.hpp"
#include "tests/support/cli_testing.hpp"

#define EXPECT_HAS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << "no \"" << (part) << "\" in: " << (text)

namespace optimus::test {

constexpr int kRanks = 4;
constexpr double kWatchdog_s = 6;
/// What a loaded machine may add to a limit.
constexpr double kLoad_s = 60;
/// For runs in which nothing hangs: beside other work a step may take longer than the limit above.
const std::string kPatient = "fault_tolerance.watchdog_s=60";

using Settings = std::vector<std::string>;

struct Layout {
  std::string name;
  Settings settings;
};
inline const Layout kTp2Pp2{"tp2pp2", {"parallel.tp=2", "parallel.pp=2"}};
inline const Layout kEp2Dp2{"ep2dp2", {"parallel.ep=2", "moe.dispatcher=all_to_all"}};
inline const Layout kEp2Dp2Bf16{"ep2dp2bf16", {"parallel.ep=2", "moe.dispatcher=all_to_all", "precision.weights=bf16"}};
inline const Layout kPp4{"pp4", {"parallel.pp=4"}};

/// A toy run in a folder of its own; no process of it may be left at the end.
class Drill : public testing::Test {
 protected:
  void SetUp() override {
    use_memory_for_files();
    folder_ = fresh_folder();
    config_ = write_toy_config(folder_, prepare_ids(folder_, some_ids(16 * 30 + 1, 61), 16));
    run_ = folder_ / "run";
  }
  void TearDown() override { EXPECT_EQ(processes(), "") << "left behind"; }

  [[nodiscard]] std::vector<std::string> args(const Layout& layout, const Settings& settings) const {
    std::vector<std::string> words = {"pretrain", config_.string()};
    Settings all = {"model.num_hidden_layers=4",
                    "batch.global_batch=4",
                    "run.steps=4",
                    "checkpoint.interval=1",
                    "log.straggler_factor=0",
                    "run.dir=" + run_.string(),
                    "fault_tolerance.watchdog_s=" + std::to_string(kWatchdog_s)};
    all.insert(all.end(), layout.settings.begin(), layout.settings.end());
    all.insert(all.end(), settings.begin(), settings.end());
    for (const std::string& setting : all) words.insert(words.end(), {"--set", setting});
    return words;
  }
  /// Ends within `kWatchdog_s` + 10 s after the start-up, and some for a loaded machine.
  ProgramResult run(const Layout& layout, const Settings& settings) const {
    const auto result = run_optimus(args(layout, settings), kRanks, "timeout 120");
    EXPECT_NE(result.code, 124) << "hangs: " << result.err;
    return result;
  }
  /// Starts the run, has `poke` (shell words; the function `rank N` prints a rank's process, `steps N` waits for N lines of metrics) act on it, and waits for its end.
  ProgramResult run_and(const Layout& layout, const Settings& settings, const std::string& poke) const;

  /// Each rank starts in a shell that has run `first(rank)`.
  ProgramResult run_each(const Layout& layout, const Settings& settings, const std::function<std::string(int)>& first) const;

  [[nodiscard]] std::vector<nlohmann::json> failures() const;
  /// Ids of processes that name the run folder, once those that are ending have had a moment.
  [[nodiscard]] std::string processes() const;

  std::filesystem::path folder_, config_, run_;
};

[[nodiscard]] inline std::string fault(const std::string& kind, int rank, int step, const std::string& more = "") {
  return "faults=[{kind=\"" + kind + "\", rank=" + std::to_string(rank) + ", step=" + std::to_string(step) + (more.empty() ? "" : ", " + more) + "}]";
}

}  // namespace optimus::test
