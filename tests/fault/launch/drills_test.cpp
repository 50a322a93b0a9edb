// What ends a run, at each phase of a step, under the supervisor: it goes on by itself, soon, and with the numbers that it would have had.
#include <cstdio>
#include <cstdlib>
#include <ostream>

#include "support.hpp"

namespace optimus::test {
namespace {

struct Case {
  std::string kind, phase;  ///< of nan: what is spoilt
  int step = 4;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.kind << " in " << c.phase << " of step " << c.step; }

constexpr int kSteps = 8, kRank = 2;
const std::vector<std::string> kFourRanks = {"--ranks", "4"};

/// scripts/drill_launch asks for all.
std::vector<Case> cases() {
  const bool has_all = std::getenv("OPTIMUS_ALL_DRILLS") != nullptr;
  if (!has_all) return {{"hang", "write"}, {"die", "publish"}};
  std::vector<Case> all;
  for (const char* kind : {"die", "hang", "stop"}) {
    for (const char* phase : {"load", "forward", "backward", "collective", "optimizer", "save", "write", "publish", "shutdown"}) all.push_back({kind, phase});
    all.push_back({kind, "forward", 1});
  }
  for (const char* where : {"activation", "weight", "gradient", "loss"}) all.push_back({"nan", where});
  all.push_back({"nan", "gradient", 1});
  return all;
}

std::string name_of(const testing::TestParamInfo<Case>& info) { return info.param.kind + "_" + info.param.phase + (info.param.step == 1 ? "_first_step" : ""); }

/// Settings of a run of four ranks that share their experts.
std::vector<std::string> settings_of(const std::string& fault) {
  std::vector<std::string> settings = {"run.steps=" + std::to_string(kSteps), "log.interval=1", "log.straggler_factor=0", "parallel.ep=2",
                                       "moe.dispatcher=all_to_all"};
  if (!fault.empty()) settings.push_back(fault);
  return settings;
}

double seconds_of(std::filesystem::file_time_type time) { return std::chrono::duration<double>(time.time_since_epoch()).count(); }
double now_s() { return seconds_of(std::filesystem::file_time_type::clock::now()); }

class LaunchDrill : public Supervised, public testing::WithParamInterface<Case> {
 protected:
  [[nodiscard]] std::size_t count_in_err(const std::string& part) const {
    const std::string text = err();
    std::size_t count = 0;
    for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
    return count;
  }
  /// The step that the second start goes on from.
  [[nodiscard]] std::size_t resumed_step() const {
    const std::string text = err(), words = " at step ";
    const auto restart = text.find("restart 1 of at most"), line = text.find("resumed from ", restart);
    return line == std::string::npos ? 0 : static_cast<std::size_t>(std::atoi(text.c_str() + text.find(words, line) + words.size()));
  }
};

TEST_P(LaunchDrill, GoesOnByItselfAndChangesNoBit) {
  const auto& [kind, phase, step] = GetParam();
  const std::string place = kind == "nan" ? "where=\"" + phase + "\"" : "phase=\"" + phase + "\"";
  start(kFourRanks, settings_of("faults=[{kind=\"" + kind + "\", rank=" + std::to_string(kRank) + ", step=" + std::to_string(step) + ", " + place + "}]"));
  const auto mark = run_ / "debug/fault-0-struck";
  wait_for([&] { return std::filesystem::exists(mark); });
  const double struck_s = seconds_of(std::filesystem::last_write_time(mark));
  // The second start says so once its metrics are open; a step later than the one it goes on from is its own. At the end of a run there is none.
  wait_for([&] { return count_in_err("model: ") == 2 || supervisor_->poll(); });
  const std::size_t from = resumed_step();
  wait_for([&] { return steps_done() > from || supervisor_->poll(); });
  const double healed_s = now_s() - struck_s;
  EXPECT_EQ(end(), 0) << err();
  EXPECT_HAS(err(), "restart 1 of at most");
  EXPECT_HAS(err(), "rank " + std::to_string(kRank));
  const auto left = ranks();
  EXPECT_TRUE(left.empty()) << "processes are left";
  std::printf("DRILL | %s | %s | %d | %d | %d | %.1f | %zu |\n", kind.c_str(), phase.c_str(), step, exit_code_of_first_start(), kRank, healed_s, left.size());
  std::fflush(stdout);
  EXPECT_LT(healed_s, kWatchdog_s + 5 + 60) << "and a minute for a loaded machine";
  expect_same_as_undisturbed(settings_of(""), 4, kSteps);
}
INSTANTIATE_TEST_SUITE_P(Table, LaunchDrill, testing::ValuesIn(cases()), name_of);

}  // namespace
}  // namespace optimus::test
