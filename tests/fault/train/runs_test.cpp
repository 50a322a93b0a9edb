// Failures that a table does not fit: skipped steps, several bad numbers at once, signals, the end of the job, stopped processes.

#include <fstream>

#include "optimus/base/file.hpp"
#include "support.hpp"

namespace optimus::test {
namespace {

TEST_F(Drill, StepsWithBadNumbersAreSkippedByAllRanksAlike) {
  for (const Layout& layout : {kTp2Pp2, kEp2Dp2, kPp4}) {
    std::filesystem::remove_all(run_);
    const auto result = run(layout, {fault("nan", 1, 2, "where=\"activation\""), "optimizer.nonfinite=skip", "debug.check_replicas=true"});
    ASSERT_EQ(result.code, 0) << layout.name << result.err;
    const auto lines = read_metrics(run_);
    ASSERT_EQ(lines.size(), 4U);
    EXPECT_EQ(lines[1]["skipped"], true) << layout.name;
    EXPECT_EQ(lines[3]["skipped"], false) << layout.name;
    EXPECT_EQ(lines[3]["nonfinite_steps"], 1) << layout.name;
  }
}

TEST_F(Drill, TwoThatGoWrongInOneStepAreBothNamed) {
  // Neither can have it from the other: they compute different rows of the batch.
  const auto result = run(kEp2Dp2, {"faults=[{kind=\"nan\", rank=1, step=2, where=\"loss\"}, {kind=\"inf\", rank=2, step=2, where=\"gradient\"}]", kPatient});
  EXPECT_EQ(result.code, 10) << result.err;
  ASSERT_EQ(failures().size(), 2U) << result.err;
  EXPECT_EQ(failures()[0]["rank"], 1);
  EXPECT_EQ(failures()[1]["rank"], 2);
  EXPECT_HAS(result.err, "nan loss on rank 1");
  EXPECT_HAS(result.err, ", inf gradient of ");
}

TEST_F(Drill, TheEndOfTheJobThatOneRankSeesStopsAllInTheSameStep) {
  const Settings settings = {"run.steps=100000", "checkpoint.interval=0", "fault_tolerance.stop_before_walltime_s=1", kPatient};
  const auto result = run_each(kTp2Pp2, settings, [](int rank) { return std::string("export PBS_WALLTIME=") + (rank == 2 ? "5" : "100000"); });
  EXPECT_EQ(result.code, 12) << result.err;
  const auto last = read_metrics(run_).back()["step"].get<int>();
  EXPECT_EQ(run(kTp2Pp2, {settings[0], settings[1], "run.stop_after_step=" + std::to_string(last + 1)}).code, 0);
  EXPECT_EQ(read_metrics(run_).back()["step"].get<int>(), last + 1) << "it goes on from exactly there";
}

TEST_F(Drill, ASignalToAnyRankSavesOnceOnAll) {
  for (const auto& [layout, rank, signal] : {std::tuple{kTp2Pp2, 3, "TERM"}, std::tuple{kEp2Dp2, 1, "USR1"}}) {
    std::filesystem::remove_all(run_);
    const Settings longer = {"run.steps=100000", "checkpoint.interval=0"};
    const auto result = run_and(layout, longer, "steps 2; kill -" + std::string(signal) + " $(rank " + std::to_string(rank) + ")");
    EXPECT_EQ(result.code, 12) << layout.name << result.err;
    const auto last = read_metrics(run_).back()["step"].get<int>();
    auto next = longer;
    next.push_back("run.stop_after_step=" + std::to_string(last + 1));
    EXPECT_EQ(run(layout, next).code, 0);
    EXPECT_EQ(read_metrics(run_).back()["step"].get<int>(), last + 1) << "it goes on from exactly there";
  }
}

TEST_F(Drill, AStepThatIsSavedAlreadyIsNotSavedAgainAtTheEnd) {
  const auto result = run_and(kEp2Dp2, {"run.steps=100000", "checkpoint.interval=1", kPatient}, "steps 2; kill -TERM $(rank 1)");
  EXPECT_EQ(result.code, 12) << result.err;
  const std::string line = "saved step " + std::to_string(read_metrics(run_).back()["step"].get<int>()) + " in";
  const auto first = result.err.find(line);
  ASSERT_NE(first, std::string::npos) << result.err;
  EXPECT_EQ(result.err.find(line, first + 1), std::string::npos) << result.err;
}

TEST_F(Drill, AnErrorBesideASaveIsToldAsItIs) {
  const std::string slow = R"({kind="slow", rank=0, step=2, phase="write", seconds=3, after_bytes=)";
  const auto result = run(kEp2Dp2, {"faults=[" + slow + "1}, " + slow + "40000}, " + slow + R"(80000}, {kind="error", rank=1, step=3, phase="load"}])"});
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_HAS(result.err, "error on rank 1 in step 3, phase load");
}

TEST_F(Drill, ASaveThatFailsBesideBadNumbersDoesNotHideThem) {
  const auto result = run(kEp2Dp2, {R"(faults=[{kind="disk_full", rank=1, step=2, after_bytes=1}, {kind="nan", rank=2, step=3, where="loss"}])",
                                    "checkpoint.keep_going_on_write_error=false", kPatient});
  EXPECT_EQ(result.code, 10) << result.err;
  EXPECT_HAS(result.err, "nan loss on rank 2");
  EXPECT_HAS(result.err, "No space left on device");
}

TEST_F(Drill, ASecondSignalEndsTheRunAtOnceAndHarmsNoCheckpoint) {
  // The first signal is noted, but the step that would heed it hangs.
  const auto result =
      run_and(kPp4, {fault("hang", 2, 3), "fault_tolerance.watchdog_s=60"}, "steps 2; sleep 1; p=$(rank 2); kill -TERM $p; sleep 0.5; kill -TERM $p");
  EXPECT_NE(result.code, 0);
  EXPECT_NE(result.code, 12);
  EXPECT_NE(result.code, 124) << result.err;
  EXPECT_EQ(run(kPp4, {}).code, 0) << "the same command goes on";
  EXPECT_EQ(read_metrics(run_).size(), 4U);
}

TEST_F(Drill, AStoppedProcessIsNamed) {
  // In a pipeline the neighbours' neighbours wait for ranks that are well; and a rank whose time is up says so itself.
  const auto result = run_and(kPp4, {"run.steps=100000", "checkpoint.interval=0"}, "steps 2; kill -STOP $(rank 2)");
  EXPECT_EQ(result.code, 11) << result.err;
  EXPECT_HAS(result.err, "rank 2 on ");  // by those who waited, or by itself when it is woken to be ended
  ASSERT_EQ(failures().size(), 1U) << "one failure, told once\n" << read_file(run_ / "failures.jsonl");
  EXPECT_EQ(failures()[0]["kind"], "hang");
  EXPECT_EQ(failures()[0]["rank"], 2) << "and not one that waited for it";
}

TEST_F(Drill, AHangInsideAPipelineIsToldOnceUnderItsOwnName) {
  const auto result = run(kPp4, {fault("hang", 2, 2, "phase=\"backward\"")});
  EXPECT_EQ(result.code, 11) << result.err;
  EXPECT_HAS(result.err, "rank 2 on ");
  ASSERT_EQ(failures().size(), 1U) << read_file(run_ / "failures.jsonl");
  EXPECT_EQ(failures()[0]["kind"], "hang");
  EXPECT_EQ(failures()[0]["rank"], 2);
  EXPECT_EQ(failures()[0]["step"], 2);
}

}  // namespace
}  // namespace optimus::test
