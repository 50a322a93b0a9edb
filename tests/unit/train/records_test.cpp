#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "optimus/base/error.hpp"
#include "optimus/base/file.hpp"
#include "optimus/train/failure_log.hpp"
#include "optimus/train/line_file.hpp"
#include "optimus/train/loss_picture.hpp"
#include "optimus/train/progress.hpp"
#include "optimus/train/step_record.hpp"

namespace optimus {
namespace {

std::filesystem::path scratch(const std::string& name) {
  const auto path = std::filesystem::temp_directory_path() / ("optimus_records_" + std::to_string(::getpid()) + "_" + name);
  std::filesystem::remove_all(path);
  return path;
}

TEST(StepRecord, HasEveryKeyThatScriptsRelyOn) {
  StepRecord record{.step = 3, .tokens = 96, .lm_loss = 2.5};
  record.tokens_per_expert = {{1, 2}};
  record.validation_loss = 3.0;
  const auto json = nlohmann::json::parse(record.json());
  for (const char* key : {"step",
                          "epoch",
                          "tokens",
                          "lm_loss",
                          "aux_loss",
                          "z_loss",
                          "lr",
                          "weight_decay",
                          "grad_norm",
                          "clip_coefficient",
                          "skipped",
                          "nonfinite_steps",
                          "sample_ids_hash",
                          "first_sample",
                          "tokens_per_s",
                          "flops_per_s",
                          "mfu",
                          "step_s",
                          "phase_s",
                          "expert_load_max",
                          "expert_load_min",
                          "tokens_per_expert",
                          "validation_loss"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["step"], 3);
  EXPECT_EQ(json["phase_s"].size(), kPhaseNames.size());
  EXPECT_FALSE(nlohmann::json::parse(StepRecord{}.json()).contains("validation_loss"));
}

TEST(StepRecord, WritesNumbersThatAreNotFiniteAsNull) {
  StepRecord record;
  record.lm_loss = std::nan("");
  record.grad_norm = std::numeric_limits<double>::infinity();
  const auto json = nlohmann::json::parse(record.json());
  EXPECT_TRUE(json["lm_loss"].is_null());
  EXPECT_TRUE(json["grad_norm"].is_null());
}

TEST(StepRecord, LoadIsRelativeToTheMean) {
  StepRecord record;
  set_expert_load(record, {2, 2, 2, 2, 8, 0, 0, 0, 0, 0, 0, 0}, 4);
  EXPECT_EQ(record.expert_load_max, (std::vector<double>{1, 4, 0}));
  EXPECT_EQ(record.expert_load_min, (std::vector<double>{1, 0, 0}));
}

TEST(MetricsFile, IsCutBackToTheStepThatARunResumesFrom) {
  const auto path = scratch("metrics");
  write_file_atomically(path, "{\"step\": 1}\n{\"step\": 2}\n{\"step\": 3}\n");
  EXPECT_EQ(keep_steps(path, 2), 2);
  EXPECT_EQ(read_file(path), "{\"step\": 1}\n{\"step\": 2}\n");
  EXPECT_EQ(keep_steps(path, 5), 2) << "what is not there cannot be kept";
  EXPECT_EQ(keep_steps(path, 0), 0);
  EXPECT_EQ(read_file(path), "");
}

TEST(MetricsFile, LosesATornLastLine) {
  const auto path = scratch("torn");
  for (const char* torn : {"{\"step\": 2", "{\"step\": 2}", "{\"st\n", "\n", "[]\n"}) {
    write_file_atomically(path, std::string("{\"step\": 1}\n") + torn);
    EXPECT_EQ(keep_steps(path, 9), 1) << torn;
    EXPECT_EQ(read_file(path), "{\"step\": 1}\n") << torn;
  }
  EXPECT_EQ(keep_steps(scratch("absent"), 9), 0);
}

TEST(MetricsFile, KeepsTheGoodLinesBehindASpoiltOne) {
  const auto path = scratch("spoilt");
  const std::string zeros(9, '\0');
  for (const std::string& bad : {zeros, std::string("{\"step\": \"2\"}"), std::string("{\"st"), std::string("{\"step\": 1}")}) {
    write_file_atomically(path, "{\"step\": 1}\n" + bad + "\n{\"step\": 3}\n" + bad + "\n{\"step\": 4}\n{\"step\": 5}\n{\"st");
    EXPECT_EQ(keep_steps(path, 4), 4) << bad;
    EXPECT_EQ(read_file(path), "{\"step\": 1}\n{\"step\": 3}\n{\"step\": 4}\n") << bad;
  }
}

TEST(MetricsFile, OfAnotherRunIsSetAsideNotThrownAway) {
  const auto path = scratch("metrics-now"), aside = scratch("metrics-before");
  std::filesystem::remove(aside);
  EXPECT_EQ(set_lines_aside(scratch("absent"), aside), 0);
  EXPECT_FALSE(std::filesystem::exists(aside));
  write_file_atomically(path, "{\"step\": 1}\n{\"step\": 2}\n");
  EXPECT_EQ(set_lines_aside(path, aside), 2);
  EXPECT_EQ(read_file(path), "");
  write_file_atomically(path, "{\"step\": 1}\n");
  EXPECT_EQ(set_lines_aside(path, aside), 1);
  EXPECT_EQ(read_file(aside), "{\"step\": 1}\n{\"step\": 2}\n{\"step\": 1}\n") << "those of two runs before";
  EXPECT_EQ(set_lines_aside(path, aside), 0);
}

TEST(LineFile, BeginsAnewWhenSomebodyRemovesIt) {
  const auto path = scratch("removed");
  LineFile file(path);
  file.append("one");
  std::filesystem::remove(path);
  file.append("two");
  EXPECT_EQ(read_file(path), "two\n");
}

TEST(LineFile, KeepsLinesThatDoNotFitUntilThereIsRoom) {
  LineFile full("/dev/full");
  EXPECT_THROW(full.append("one"), FileError);
  EXPECT_THROW(full.append("two"), FileError);
  EXPECT_EQ(full.waiting_bytes(), std::string("one\ntwo\n").size());
}

TEST(LineFile, NamesThePathThatCannotBeWritten) {
  try {
    LineFile file("/nonexistent/folder/metrics.jsonl");
    FAIL();
  } catch (const FileError& error) {
    EXPECT_NE(std::string(error.what()).find("/nonexistent/folder/metrics.jsonl"), std::string::npos);
  }
}

TEST(FailureLog, WritesOneJsonObjectALine) {
  const auto folder = scratch("failures");
  std::filesystem::create_directories(folder);
  append_failure(folder, {.step = 5, .rank = 2, .host = "node1", .kind = "nan", .message = "nan loss \xff"});
  append_failure(folder, {.step = 6, .rank = 0, .host = "node0", .kind = "lost", .message = "gone"});
  std::ifstream in(folder / "failures.jsonl");
  std::string first, second;
  std::getline(in, first);
  std::getline(in, second);
  const auto json = nlohmann::json::parse(first);
  EXPECT_EQ(json["rank"], 2);
  EXPECT_EQ(json["kind"], "nan");
  EXPECT_EQ(json["time"].get<std::string>().size(), 20U);
  EXPECT_EQ(nlohmann::json::parse(second)["host"], "node0");
}

TEST(FailureLog, KeepsTheFirstLineOfAKindSinceAStart) {
  const auto folder = scratch("first_failures");
  std::filesystem::create_directories(folder);
  EXPECT_EQ(failure_log_bytes(folder), 0);
  append_failure(folder, {.step = 5, .rank = 2, .kind = "hang"});
  const Index start = failure_log_bytes(folder);
  append_failure(folder, {.step = 6, .rank = 0, .kind = "lost"});
  EXPECT_TRUE(append_first_failure(folder, {.step = 6, .rank = 1, .kind = "hang"}, start)) << "that of the start before does not count";
  EXPECT_FALSE(append_first_failure(folder, {.step = 6, .rank = 3, .kind = "hang"}, start));
  const std::string text = read_file(folder / "failures.jsonl");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3);
  EXPECT_EQ(text.find("\"rank\":3"), std::string::npos);
}

TEST(FailureLog, TellsKindsApart) {
  EXPECT_EQ(failure_kind(CommError("gone")), "lost");
  EXPECT_EQ(failure_kind(NumericError("step 3: nan loss")), "nan");
  EXPECT_EQ(failure_kind(NumericError("step 3: inf gradient of x")), "inf");
  EXPECT_EQ(failure_kind(DataError("id")), "error");
}

TEST(Progress, SaysHowLongItStillTakes) {
  EXPECT_EQ(format_duration(41.4), "41s");
  EXPECT_EQ(format_duration(192), "3m12s");
  EXPECT_EQ(format_duration(7505), "2h05m");
  StepRecord record{.step = 12, .lm_loss = 3.1234, .tokens_per_s = 18240, .mfu = 0.231};
  EXPECT_EQ(progress_text(record, 1000, 192), "step 12/1000  loss 3.1234  18.2k tokens/s  MFU 23.1 %  ETA 3m12s");
}

TEST(LossPicture, DrawsAFallingLine) {
  const std::vector<CurvePoint> points = {{1, 4}, {2, 3}, {3, 2}, {4, 1}};
  // Two characters of 2 x 4 dots: one dot a column, from the upper left to the lower right.
  EXPECT_EQ(draw_curve(points, 2, 1), "   4.000 |⠑⢄\n    step  1         4\n");
}

TEST(LossPicture, LeavesOutWhatIsNotFinite) {
  const std::vector<CurvePoint> points = {{1, std::nan("")}, {2, std::numeric_limits<double>::infinity()}};
  EXPECT_EQ(draw_curve(points), "");
  EXPECT_EQ(draw_curve({}), "");
}

}  // namespace
}  // namespace optimus
