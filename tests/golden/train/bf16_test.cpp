// bf16 weights and activations train as fp32 ones do: the model of configs/quickstart.toml on this project's own sources, read as bytes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <vector>

#include "tests/support/cli_testing.hpp"

namespace optimus::test {
namespace {

void write_corpus(const std::filesystem::path& path) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(std::filesystem::path(OPTIMUS_SOURCE_DIR) / "optimus")) {
    if (entry.path().extension() == ".hpp" || entry.path().extension() == ".cpp") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::ofstream out(path);
  for (const auto& file : files) out << std::ifstream(file).rdbuf();
}

TEST(Bf16, LossStaysWithinOnePercentOfFp32OverTwoHundredSteps) {
  const auto folder = fresh_folder();
  write_corpus(folder / "corpus.txt");
  ASSERT_EQ(
      run_optimus({"prepare", "--out", (folder / "data").string(), "--tokenizer", "bytes", "--sequence-length", "256", (folder / "corpus.txt").string()}).code,
      0);
  std::vector<std::vector<double>> losses;
  for (const std::string weights : {"fp32", "bf16"}) {
    std::vector<std::string> args = {"pretrain", (std::filesystem::path(OPTIMUS_SOURCE_DIR) / "configs/quickstart.toml").string()};
    for (const std::string& setting :
         {"run.dir=" + (folder / weights).string(), "data.path=" + (folder / "data").string(), std::string("run.steps=200"),
          std::string("batch.global_batch=4"), std::string("batch.micro_batch=4"), std::string("checkpoint.interval=0"), "precision.weights=" + weights}) {
      args.insert(args.end(), {"--set", setting});
    }
    const auto result = run_optimus(args, 0, "OMP_NUM_THREADS=2");
    ASSERT_EQ(result.code, 0) << result.err;
    losses.emplace_back();
    for (const auto& line : read_metrics(folder / weights)) losses.back().push_back(line["lm_loss"]);
  }
  ASSERT_EQ(losses[1].size(), 200U);
  for (std::size_t i = 0; i < 200; ++i) EXPECT_NEAR(losses[1][i], losses[0][i], 0.01 * losses[0][i]) << "step " << i + 1;
  EXPECT_LT(losses[1].back(), 0.8 * losses[1].front()) << "it learns";
}

}  // namespace
}  // namespace optimus::test
