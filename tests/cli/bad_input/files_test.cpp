// Files of the user that are damaged, of another kind, or in the way.

#include <sys/stat.h>

#include <fstream>

#include "tests/cli/pretrain/support.hpp"

namespace optimus::test {
namespace {

class BadFiles : public Pretrain {
 protected:
  [[nodiscard]] ProgramResult tokenize(const std::string& lines, const std::vector<std::string>& options = {}) {
    std::ofstream(folder_ / "lines.jsonl") << lines;
    std::vector<std::string> all = {"tokenize", "--tokenizer", "bytes", (folder_ / "lines.jsonl").string()};
    all.insert(all.end(), options.begin(), options.end());
    return run_optimus(all);
  }
  [[nodiscard]] std::filesystem::path slot(int i) const { return run_ / "checkpoints" / ("slot-" + std::to_string(i)); }
};

TEST_F(BadFiles, IdsThatAreNoneAreNotDecoded) {
  for (const std::string id : {"-1", "1.5", "257", "99999999999999999999"}) {
    const auto result = tokenize("{\"ids\": [1]}\n{\"ids\": [65, " + id + "]}\n", {"--decode"});
    EXPECT_EQ(result.code, 3) << id;
    EXPECT_HAS(result.err, "lines.jsonl:2");
  }
}

TEST_F(BadFiles, MessagesAboutLinesAreOursNotTheParsers) {
  for (const std::string line : {"{\"text\": ", "5", "{\"txt\": \"a\"}", "{\"text\": 5}"}) {
    const auto result = tokenize(line + "\n");
    EXPECT_EQ(result.code, 3) << line;
    EXPECT_HAS(result.err, "lines.jsonl:1");
    EXPECT_EQ(result.err.find("exception"), std::string::npos) << result.err;
  }
}

TEST_F(BadFiles, APipeAmongTheInputsIsRefusedNotWaitedFor) {
  const auto pipe = folder_ / "pipe.txt";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const auto result =
      run_optimus({"prepare", "--out", (folder_ / "o").string(), "--tokenizer", "bytes", "--sequence-length", "4", pipe.string()}, 0, "timeout 10");
  EXPECT_EQ(result.code, 3);
  EXPECT_HAS(result.err, "pipe.txt");
}

TEST_F(BadFiles, WhatCannotBeReadAsDataIsAFaultOfTheData) {
  std::filesystem::remove(data_ / "dataset.json");
  std::filesystem::create_directory(data_ / "dataset.json");
  EXPECT_EQ(run({}).code, 3);
  EXPECT_EQ(run_optimus({"tokenize", "--tokenizer", "bytes", folder_.string()}).code, 3);
}

TEST_F(BadFiles, ExportsDoNotGoIntoACheckpoint) {
  ASSERT_EQ(run({}).code, 0);
  const std::string checkpoint = slot(0).string();
  EXPECT_EQ(run_optimus({"convert", "to-hf", checkpoint, "--out", checkpoint}).code, 1);
  EXPECT_EQ(run_optimus({"convert", "to-hf", checkpoint, "--out", run_.string()}).code, 1);
  EXPECT_EQ(run_optimus({"checkpoint", "consolidate", checkpoint, "--out", checkpoint + "/all.safetensors"}).code, 1);
  EXPECT_EQ(run_optimus({"checkpoint", "verify", checkpoint}).code, 0);
}

TEST_F(BadFiles, ADamagedCheckpointIsPassedOverAloud) {
  ASSERT_EQ(run({"checkpoint.interval=2", "run.stop_after_step=4"}).code, 0);
  std::string latest;
  std::getline(std::ifstream(run_ / "checkpoints" / "latest") >> std::ws, latest);
  std::filesystem::resize_file(run_ / "checkpoints" / latest / "manifest.json", 100);
  const auto result = run({"run.stop_after_step=4"});
  EXPECT_EQ(result.code, 0);
  EXPECT_HAS(result.err, "warning");
  EXPECT_HAS(result.err, latest + "/manifest.json");
  EXPECT_HAS(result.err, "at step 2");
}

TEST_F(BadFiles, ARunThatStartsAnewIsNotContinuedFromTheOneBefore) {
  ASSERT_EQ(run({}).code, 0);
  const auto failed = run({"run.resume=never", "faults=[{kind=\"error\", step=2}]"});
  EXPECT_NE(failed.code, 0);
  EXPECT_TRUE(std::filesystem::exists(run_ / "checkpoints" / "replaced" / "slot-0" / "manifest.json")) << "nothing is lost";
  const auto result = run({});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err.find("resumed"), std::string::npos) << result.err;
  EXPECT_EQ(read_metrics(run_).size(), 6U);
}

TEST_F(BadFiles, AnotherModelsCheckpointIsRefusedWithTheDifference) {
  ASSERT_EQ(run({}).code, 0);
  const auto result = run({"model.rope_theta=5000.0"});
  EXPECT_EQ(result.code, 4);
  EXPECT_HAS(result.err, "rope_theta 10000.0 there, 5000.0 here");
}

TEST_F(BadFiles, ARunThatIsDoneSaysSo) {
  ASSERT_EQ(run({}).code, 0);
  EXPECT_HAS(run({}).err, "nothing is left to do");
}

TEST_F(BadFiles, TwoRunsDoNotShareAFolder) {
  const std::string first = "OMP_NUM_THREADS=1 " + optimus_command(args({"faults=[{kind=\"slow\", step=2, seconds=3.0}]"})) + " >/dev/null 2>&1 &";
  ASSERT_EQ(std::system(first.c_str()), 0);
  for (int i = 0; i < 500 && read_metrics(run_).empty(); ++i) ASSERT_EQ(std::system("sleep 0.02"), 0);
  const auto second = run({});
  EXPECT_EQ(second.code, 2);
  EXPECT_HAS(second.err, "in use by another run");
  for (int i = 0; i < 500 && read_metrics(run_).size() < 6; ++i) ASSERT_EQ(std::system("sleep 0.02"), 0);
  EXPECT_EQ(read_metrics(run_).size(), 6U);
}

}  // namespace
}  // namespace optimus::test
