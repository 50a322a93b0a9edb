// Everything that [[faults]] can do, at each phase, in several layouts: right exit code, right name, bounded time, nothing left behind.

#include <cstdlib>
#include <ostream>

#include "support.hpp"

namespace optimus::test {
namespace {

struct Case {
  Layout layout;
  std::string kind, phase;
  int rank = 0;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.kind << " in " << c.phase << " on rank " << c.rank << " of " << c.layout.name; }

/// Whether scripts/drill_train asks for the whole table.
bool has_all() { return std::getenv("OPTIMUS_ALL_DRILLS") != nullptr; }

std::string name_of(const testing::TestParamInfo<Case>& info) { return info.param.kind + "_" + info.param.phase + "_" + info.param.layout.name; }

/// Each layout meets another phase in the fast part.
std::vector<Case> stops() {
  std::vector<Case> cases;
  const std::vector<Layout> layouts = {kTp2Pp2, kEp2Dp2, kPp4};
  const std::vector<std::string> phases = {"load", "forward", "backward", "collective", "optimizer", "save", "shutdown"};
  for (const char* kind : {"error", "hang", "die"}) {
    for (std::size_t phase = 0; phase < phases.size(); ++phase) {
      for (std::size_t layout = 0; layout < layouts.size(); ++layout) {
        const bool is_turn = phase % layouts.size() == layout;
        const bool is_fast =
            is_turn && (std::string(kind) == "error" || (std::string(kind) == "hang" && phase % 2 == 1) || (std::string(kind) == "die" && phase == 2));
        if (has_all() || is_fast) cases.push_back({layouts[layout], kind, phases[phase], static_cast<int>(phase + layout) % kRanks});
      }
    }
  }
  return cases;
}

class Stops : public Drill, public testing::WithParamInterface<Case> {};

TEST_P(Stops, EndAllRanksAndNameTheOne) {
  const auto& [layout, kind, phase, rank] = GetParam();
  const Timer timer;
  const auto result = run(layout, {fault(kind, rank, 2, "phase=\"" + phase + "\"")});
  EXPECT_LT(timer.seconds(), kWatchdog_s + 10 + kLoad_s);
  const std::string named = "rank " + std::to_string(rank);
  if (kind == "die") {
    EXPECT_NE(result.code, 0) << result.err;
    EXPECT_HAS(result.err, "signal 9");
  } else if (kind == "error") {
    EXPECT_EQ(result.code, 1) << result.err;
    EXPECT_HAS(result.err, "error on " + named + " in step 2, phase " + phase);
  } else {
    EXPECT_EQ(result.code, 11) << result.err;
    EXPECT_HAS(result.err, named + " on ");
    EXPECT_HAS(result.err, phase);
    ASSERT_EQ(failures().size(), 1U) << "one hang, told once: " << result.err;
    EXPECT_EQ(failures()[0]["kind"], "hang");
    EXPECT_EQ(failures()[0]["rank"], rank) << failures()[0];
  }
}
INSTANTIATE_TEST_SUITE_P(Table, Stops, testing::ValuesIn(stops()), name_of);

/// `phase` is what is spoilt.
std::vector<Case> bad_numbers() {
  std::vector<Case> cases;
  for (const Layout& layout : {kTp2Pp2, kEp2Dp2, kPp4}) {
    for (const char* where : {"activation", "weight", "gradient", "loss"}) {
      for (const int rank : {0, 1, 2, 3}) {
        const bool is_fast = rank == 1 && (std::string(where) == "activation" || (std::string(where) == "weight" && layout.name != "pp4"));
        if (has_all() || is_fast) cases.push_back({layout, rank % 2 == 0 ? "inf" : "nan", where, rank});
      }
    }
  }
  return cases;
}
std::string name_of_numbers(const testing::TestParamInfo<Case>& info) { return name_of(info) + "_rank" + std::to_string(info.param.rank); }

class BadNumbers : public Drill, public testing::WithParamInterface<Case> {};

TEST_P(BadNumbers, StopTheRunUnderTheRankWhereTheyBegan) {
  const auto& [layout, kind, where, rank] = GetParam();
  const auto result = run(layout, {fault(kind, rank, 3, "where=\"" + where + "\"")});
  EXPECT_EQ(result.code, 10) << result.err;
  ASSERT_EQ(failures().size(), 1U) << result.err;
  EXPECT_EQ(failures()[0]["rank"], rank) << result.err;
  EXPECT_EQ(failures()[0]["step"], 3);
  EXPECT_EQ(read_metrics(run_).size(), 2U);
  // What is on disk is step 2, as a run that ends there has it.
  const std::string kept = consolidated(run_);
  std::filesystem::remove_all(run_);
  ASSERT_EQ(run(layout, {"run.stop_after_step=2"}).code, 0);
  EXPECT_TRUE(kept == consolidated(run_)) << "the last checkpoint is not that of step 2";
}
INSTANTIATE_TEST_SUITE_P(Table, BadNumbers, testing::ValuesIn(bad_numbers()), name_of_numbers);

}  // namespace
}  // namespace optimus::test
