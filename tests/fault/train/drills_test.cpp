// Everything that [[faults]] can do, at each phase, in several layouts: right exit code, right name, bounded time, nothing left behind.

#include <algorithm>
#include <cstdlib>
#include <ostream>

#include "optimus/base/file.hpp"
#include "support.hpp"

namespace optimus::test {
namespace {

struct Case {
  Layout layout;
  std::string kind, phase;
  int rank = 0, step = 2;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.kind << " in " << c.phase << " of step " << c.step << " on rank " << c.rank << " of " << c.layout.name;
}

/// Whether scripts/drill_train asks for the whole table.
bool has_all() { return std::getenv("OPTIMUS_ALL_DRILLS") != nullptr; }

std::string name_of(const testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return c.kind + "_" + c.phase + (c.step == 1 ? "_first_step_" : "_") + c.layout.name;
}

const std::vector<Layout> kLayouts = {kTp2Pp2, kEp2Dp2, kPp4};
const std::vector<std::string> kPhases = {"load", "forward", "backward", "collective", "optimizer", "save", "write", "publish", "shutdown"};

/// What a change is looked at with: each layout meets another phase, and what takes as long as its limit is tried now and then.
bool is_in_fast_part(const std::string& kind, const std::string& phase) {
  if (kind == "error") return true;
  if (kind == "hang") return phase == "optimizer" || phase == "write";
  return kind == "die" && phase == "backward";
}

std::vector<Case> stops() {
  std::vector<Case> cases;
  for (const char* kind : {"error", "hang", "stop", "die"}) {
    for (std::size_t phase = 0; phase < kPhases.size(); ++phase) {
      for (std::size_t layout = 0; layout < kLayouts.size(); ++layout) {
        const bool is_turn = phase % kLayouts.size() == layout;
        const int rank = static_cast<int>(phase + layout) % kRanks;
        if (has_all() || (is_turn && is_in_fast_part(kind, kPhases[phase]))) cases.push_back({kLayouts[layout], kind, kPhases[phase], rank});
        // Of the first step each phase in one layout: nothing has been saved, and what lives as long as the run is used for the first time.
        if (has_all() && is_turn && kPhases[phase] != "shutdown") cases.push_back({kLayouts[layout], kind, kPhases[phase], rank, 1});
      }
    }
  }
  return cases;
}

class Stops : public Drill, public testing::WithParamInterface<Case> {};

TEST_P(Stops, EndAllRanksAndNameTheOne) {
  const auto& [layout, kind, phase, rank, step] = GetParam();
  const Timer timer;
  Settings settings = {fault(kind, rank, step, "phase=\"" + phase + "\"")};
  if (kind == "error" || kind == "die") settings.push_back(kPatient);
  const auto result = run(layout, settings);
  EXPECT_LT(timer.seconds(), kWatchdog_s + 10 + kLoad_s);
  const std::string named = "rank " + std::to_string(rank);
  if (kind == "die") {
    EXPECT_NE(result.code, 0) << result.err;
    EXPECT_HAS(result.err, "signal 9");
  } else if (kind == "error") {
    EXPECT_EQ(result.code, 1) << result.err;
    EXPECT_HAS(result.err, "error on " + named + " in step " + std::to_string(step) + ", phase " + phase);
  } else {
    EXPECT_EQ(result.code, 11) << result.err;
    EXPECT_HAS(result.err, named + " on ");
    // Who is stopped whole is silent wherever it is; who hangs while its files are written may be in a later step by now.
    if (kind == "hang") {
      EXPECT_HAS(result.err, phase);
    }
    ASSERT_EQ(failures().size(), 1U) << "one hang, told once: " << result.err;
    EXPECT_EQ(failures()[0]["kind"], "hang");
    EXPECT_EQ(failures()[0]["rank"], rank) << failures()[0];
  }
}
INSTANTIATE_TEST_SUITE_P(Table, Stops, testing::ValuesIn(stops()), name_of);

/// `phase` is what is spoilt.
std::vector<Case> bad_numbers() {
  std::vector<Case> cases;
  for (const Layout& layout : {kTp2Pp2, kEp2Dp2, kPp4, kEp2Dp2Bf16}) {
    for (const char* where : {"activation", "weight", "gradient", "loss"}) {
      for (const int rank : {0, 1, 2, 3}) {
        const bool is_fast = rank == 1 && (std::string(where) == "activation" || (std::string(where) == "weight" && layout.name != "pp4"));
        if (has_all() || is_fast) cases.push_back({layout, rank % 2 == 0 ? "inf" : "nan", where, rank, 3});
        if (has_all() && rank == 2) cases.push_back({layout, "nan", where, rank, 1});
      }
    }
  }
  return cases;
}
std::string name_of_numbers(const testing::TestParamInfo<Case>& info) { return name_of(info) + "_rank" + std::to_string(info.param.rank); }

class BadNumbers : public Drill, public testing::WithParamInterface<Case> {};

TEST_P(BadNumbers, StopTheRunUnderTheRankWhereTheyBegan) {
  const auto& [layout, kind, where, rank, step] = GetParam();
  const auto result = run(layout, {fault(kind, rank, step, "where=\"" + where + "\""), kPatient});
  EXPECT_EQ(result.code, 10) << result.err;
  ASSERT_EQ(failures().size(), 1U) << result.err;
  EXPECT_EQ(failures()[0]["rank"], rank) << result.err;
  EXPECT_EQ(failures()[0]["step"], step);
  EXPECT_EQ(read_metrics(run_).size(), static_cast<std::size_t>(step - 1));
  if (step == 1) return;
  // What is on disk is step 2, as a run that ends there has it.
  const std::string kept = consolidated(run_);
  std::filesystem::remove_all(run_);
  ASSERT_EQ(run(layout, {"run.stop_after_step=2", kPatient}).code, 0);
  EXPECT_TRUE(kept == consolidated(run_)) << "the last checkpoint is not that of step 2";
}
INSTANTIATE_TEST_SUITE_P(Table, BadNumbers, testing::ValuesIn(bad_numbers()), name_of_numbers);

/// The part of a step under which the log names a rank that is slow in `phase`.
std::string work_of(const std::string& phase) {
  if (phase == "load") return "data";
  if (phase == "collective") return "reduce";
  if (phase == "optimizer") return "update";
  return phase == "save" || phase == "publish" ? "checkpoint" : "forward_backward";
}

std::vector<Case> slow_ranks() {
  std::vector<Case> cases;
  for (std::size_t phase = 0; phase < kPhases.size(); ++phase) {
    for (std::size_t layout = 0; layout < kLayouts.size(); ++layout) {
      for (const int step : {1, 3}) {
        const bool is_fast = kPhases[phase] == "backward" && layout == 1 && step == 3;
        if (has_all() || is_fast) cases.push_back({kLayouts[layout], "slow", kPhases[phase], static_cast<int>(phase + 1) % kRanks, step});
      }
    }
  }
  return cases;
}

class SlowRanks : public Drill, public testing::WithParamInterface<Case> {};

TEST_P(SlowRanks, AreNamedInThePhaseWhereTheyAreSlowAndChangeNothing) {
  const auto& [layout, kind, phase, rank, step] = GetParam();
  // 3 s are slow beside any step of this model, on whatever machine, and no reason to end it.
  const auto result = run(layout, {fault(kind, rank, step, "seconds=3, phase=\"" + phase + "\""), "log.straggler_factor=2", kPatient});
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(failures().empty()) << read_file(run_ / "failures.jsonl");
  const auto lines = read_metrics(run_);
  ASSERT_EQ(lines.size(), 4U);
  if (phase != "write" && phase != "publish" && phase != "shutdown") {  // in the background, in a step that is not known, and behind the last
    const auto& line = lines[static_cast<std::size_t>(step - 1)];
    ASSERT_TRUE(line.contains("stragglers")) << line;
    const auto& slow = line["stragglers"];
    EXPECT_TRUE(std::any_of(slow.begin(), slow.end(), [&](const auto& s) { return s["rank"] == rank && s["phase"] == work_of(phase); })) << slow;
    EXPECT_HAS(result.err, "[stragglers] rank " + std::to_string(rank) + " on ");
  }
  const std::string slow = metrics_without_times(run_);
  std::filesystem::remove_all(run_);
  ASSERT_EQ(run(layout, {kPatient}).code, 0);
  EXPECT_EQ(slow, metrics_without_times(run_));
}
INSTANTIATE_TEST_SUITE_P(Table, SlowRanks, testing::ValuesIn(slow_ranks()), name_of);

}  // namespace
}  // namespace optimus::test
