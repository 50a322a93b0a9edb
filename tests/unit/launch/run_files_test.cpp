#include "optimus/launch/run_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace optimus::launch {
namespace {

namespace fs = std::filesystem;

class RunFiles : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(dir_ / "checkpoints"); }
  void TearDown() override { fs::remove_all(dir_); }
  void append(const char* file, const std::string& text) const { std::ofstream(dir_ / file, std::ios::app) << text; }
  const fs::path dir_ = fs::temp_directory_path() / ("optimus_run_files_" + std::to_string(::getpid()));
};

TEST_F(RunFiles, FailuresAreReadOnceAndOnlyNewOnes) {
  append("failures.jsonl", R"({"step":1,"rank":0,"host":"old","kind":"lost","message":""})"
                           "\n");
  FailureReader reader(dir_);
  EXPECT_TRUE(reader.read_new().empty());
  append("failures.jsonl", R"({"time":"t","step":7,"rank":2,"host":"n","kind":"nan","message":"m"})"
                           "\nnot json\n{\"step\":");
  const auto first = reader.read_new();
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(first[0].step, 7);
  EXPECT_EQ(first[0].rank, 2);
  EXPECT_EQ(first[0].kind, "nan");
  append("failures.jsonl", R"(8,"rank":1,"host":"n","kind":"hang"})"
                           "\n");
  EXPECT_EQ(reader.read_new().size(), 1U) << "a line that was not whole is read when it is";
  EXPECT_TRUE(reader.read_new().empty());
}

TEST_F(RunFiles, TheSupervisorsOwnLinesAreNoFailures) {
  FailureReader reader(dir_);
  append_event(dir_, {.step = 3, .rank = -1, .host = "a", .kind = kReplacedKind, .message = "b takes its place"}, {"a", "b"});
  append_event(dir_, {.step = 3, .kind = kRestartKind}, {"b"});
  EXPECT_TRUE(reader.read_new().empty());
  std::ifstream in(dir_ / "failures.jsonl");
  std::string line;
  std::getline(in, line);
  EXPECT_THAT(line, testing::HasSubstr(R"("kind":"replaced","message":"b takes its place","hosts":["a","b"])"));
}

TEST_F(RunFiles, TheLastStepIsThatOfTheLastWholeLine) {
  EXPECT_EQ(last_step(dir_), 0);
  append("metrics.jsonl", "{\"step\":1,\"lm_loss\":2}\n{\"step\":2,\"lm_loss\":2}\n{\"step\":3");
  EXPECT_EQ(last_step(dir_), 2);
  append("metrics.jsonl", ",\"table\":[" + std::string(3 << 20, ' ') + "]}\n");
  EXPECT_EQ(last_step(dir_), 3) << "a line longer than what is read first";
}

TEST_F(RunFiles, ASignOfLifeIsAnyFileThatGrows) {
  const auto before = life_sign(dir_);
  EXPECT_EQ(life_sign(dir_), before);
  append("log.txt", "saved\n");
  const auto after = life_sign(dir_);
  EXPECT_NE(after, before);
  fs::create_directory(dir_ / "checkpoints" / ".slot-0.writing");
  EXPECT_NE(life_sign(dir_), after);
}

}  // namespace
}  // namespace optimus::launch
