#include <sys/wait.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "support.hpp"

namespace optimus::test {
namespace {

class Failures : public Pretrain {
 protected:
  [[nodiscard]] std::vector<nlohmann::json> failures() const {
    std::vector<nlohmann::json> lines;
    std::ifstream in(run_ / "failures.jsonl");
    for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
};

TEST_F(Failures, NotANumberStopsTheRunAndNamesTheRankThatHadIt) {
  for (const char* where : {"gradient", "loss", "weight"}) {
    std::filesystem::remove_all(run_);
    const auto result = run({std::string("faults=[{kind=\"nan\", rank=1, step=3, where=\"") + where + "\"}]", "run.resume=never", "checkpoint.interval=1"}, 2);
    EXPECT_EQ(result.code, 10) << where << result.err;
    EXPECT_HAS(result.err, "on rank 1");
    ASSERT_FALSE(failures().empty()) << where;
    EXPECT_EQ(failures()[0]["rank"], 1);
    EXPECT_EQ(failures()[0]["kind"], "nan");
    EXPECT_EQ(failures()[0]["step"], 3);
    EXPECT_EQ(read_metrics(run_).size(), 2U);
    // Restarted, the fault does not strike again, and the run ends well.
    EXPECT_EQ(run({"checkpoint.interval=1"}, 2).code, 0) << where;
    EXPECT_EQ(read_metrics(run_).size(), 6U);
  }
}

TEST_F(Failures, InfinityNamesTheTensor) {
  const auto result = run({"faults=[{kind=\"inf\", step=2, tensor=\"model.norm.weight\"}]"});
  EXPECT_EQ(result.code, 10) << result.err;
  EXPECT_HAS(result.err, "inf gradient of model.norm.weight on rank 0");
}

TEST_F(Failures, NotANumberCanBeSkippedAndCounted) {
  const auto result = run({"optimizer.nonfinite=skip", "faults=[{kind=\"nan\", step=3}]"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto lines = read_metrics(run_);
  EXPECT_EQ(lines[2]["skipped"], true);
  EXPECT_TRUE(lines[2]["grad_norm"].is_null());
  EXPECT_EQ(lines[5]["nonfinite_steps"], 1);
  EXPECT_EQ(lines[5]["skipped"], false);
}

/// A copy of the weights is made anew from the fp32 values; spoilt fp32 values cannot be, and skipping on would be for ever.
TEST_F(Failures, ASpoiltWeightIsSkippedOverOnceOrEndsTheRun) {
  const std::vector<std::string> settings = {"optimizer.nonfinite=skip",
                                             "faults=[{kind=\"nan\", rank=1, step=3, where=\"weight\", tensor=\"model.norm.weight\"}]"};
  auto rounded = settings;
  rounded.emplace_back("precision.weights=bf16");
  ASSERT_EQ(run(rounded, 2).code, 0);
  const auto lines = read_metrics(run_);
  EXPECT_EQ(lines[2]["skipped"], true);
  EXPECT_EQ(lines[5]["nonfinite_steps"], 1);

  auto replicated = settings;
  for (const char* setting : {"precision.weights=fp32", "parallel.optimizer_sharding=none", "run.resume=never"}) replicated.emplace_back(setting);
  std::filesystem::remove_all(run_);
  const auto result = run(replicated, 2);
  EXPECT_EQ(result.code, 10) << result.err;
  EXPECT_HAS(result.err, "nan weight model.norm.weight on rank 1");
  EXPECT_EQ(read_metrics(run_).size(), 2U);
  EXPECT_EQ(failures().back()["rank"], 1);
}

/// Token 0 is never read: neither loss nor gradients see its row of the embedding.
TEST_F(Failures, NotANumberInAnUnusedWeightIsFoundInItsStep) {
  std::vector<int> ids = some_ids(16 * 30 + 1, 60);
  for (int& id : ids) ++id;
  const auto data = prepare_ids(fresh_folder("unused"), ids, 16);
  for (const char* weights : {"fp32", "bf16"}) {
    std::filesystem::remove_all(run_);
    const auto result =
        run({"data.path=" + data.string(), std::string("precision.weights=") + weights, "faults=[{kind=\"nan\", rank=1, step=2, where=\"weight\"}]"}, 2);
    EXPECT_EQ(result.code, 10) << result.err;
    EXPECT_HAS(result.err, "nan weight model.embed_tokens.weight on rank 1");
    EXPECT_EQ(failures().size(), 1U);
    EXPECT_EQ(failures()[0]["rank"], 1);
    EXPECT_EQ(failures()[0]["step"], 2);
  }
}

TEST_F(Failures, AnErrorOnOneRankEndsAllOfThemWithItsCode) {
  const auto result = run({"faults=[{kind=\"error\", rank=1, step=2}]"}, 2);
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_HAS(result.err, "rank 1");
  EXPECT_FALSE(failures().empty());
}

TEST_F(Failures, AHangingRankEndsTheRun) {
  const auto start = std::chrono::steady_clock::now();
  const auto result = run({"faults=[{kind=\"hang\", step=2}]", "fault_tolerance.watchdog_s=1"});
  EXPECT_EQ(result.code, 11) << result.err;
  EXPECT_HAS(result.err, "rank 0");
  EXPECT_HAS(result.err, "step 2");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  ASSERT_FALSE(failures().empty());
  EXPECT_EQ(failures()[0]["kind"], "hang");
}

TEST_F(Failures, AHangingRankAmongOthersIsNamed) {
  const auto result = run({"faults=[{kind=\"hang\", rank=1, step=2}]", "fault_tolerance.watchdog_s=2"}, 2, "timeout 60");
  EXPECT_EQ(result.code, 11) << result.err;
  EXPECT_HAS(result.err, "rank 1");
  EXPECT_HAS(result.err, "step 2");
}

TEST_F(Failures, AKilledRankEndsTheRun) {
  const auto result = run({"faults=[{kind=\"die\", rank=1, step=2}]", "fault_tolerance.watchdog_s=5"}, 2, "timeout 60");
  EXPECT_NE(result.code, 0);
  EXPECT_NE(result.code, 124) << "must not hang";
}

TEST_F(Failures, ACheckpointThatCannotBeWrittenIsAWarningOrTheEndAsConfigured) {
  for (const char* async : {"checkpoint.async=true", "checkpoint.async=false"}) {
    const std::vector<std::string> settings = {"faults=[{kind=\"write_error\", step=2, once=false}]", "checkpoint.interval=2", "run.resume=never", async};
    std::filesystem::remove_all(run_);
    auto keep_going = settings;
    // Once: the last checkpoint, at the end, is written again.
    keep_going[0] = "faults=[{kind=\"write_error\", step=2}]";
    const auto warned = run(keep_going);
    EXPECT_EQ(warned.code, 0) << warned.err;
    EXPECT_HAS(warned.err, "was not written");
    EXPECT_EQ(failures().at(0)["kind"], "write");
    auto strict = settings;
    strict.push_back("checkpoint.keep_going_on_write_error=false");
    EXPECT_EQ(run(strict).code, 1);
  }
}

TEST_F(Failures, ASignalSavesAndEndsWithItsOwnCode) {
  for (const int ranks : {0, 2}) {
    std::filesystem::remove_all(run_);
    // Long enough that only the signal can end it; it is sent once metrics.jsonl has lines.
    const std::string command = "OMP_NUM_THREADS=1 " + optimus_command(args({"run.steps=100000", "log.interval=100000"}), ranks) + " >/dev/null 2>" +
                                (folder_ / "err").string() + " & pid=$!; " + "for i in $(seq 300); do [ -s '" + (run_ / "metrics.jsonl").string() +
                                "' ] && break; sleep 0.1; done; kill -USR1 $pid; wait $pid";
    std::ofstream(folder_ / "script") << command << "\n";
    const int status = std::system(("bash " + (folder_ / "script").string()).c_str());
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 12);
    const auto lines = read_metrics(run_);
    ASSERT_FALSE(lines.empty());
    // It goes on from exactly there.
    const std::string next = std::to_string(lines.back()["step"].get<int>() + 2);
    const auto result = run({"run.steps=100000", "log.interval=100000", "run.stop_after_step=" + next}, ranks);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(std::to_string(read_metrics(run_).back()["step"].get<int>()), next);
  }
}

TEST_F(Failures, TheEndOfTheBatchJobSavesAndStops) {
  const auto result = run({"run.steps=100000", "log.interval=100000", "fault_tolerance.stop_before_walltime_s=600"}, 0, "PBS_WALLTIME=601");
  EXPECT_EQ(result.code, 12) << result.err;
  EXPECT_GE(read_metrics(run_).size(), 1U);
}

}  // namespace
}  // namespace optimus::test
