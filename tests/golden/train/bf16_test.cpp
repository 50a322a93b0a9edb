// bf16 weights and activations train as fp32 ones do: the model of configs/quickstart.toml on this project's own sources, read as bytes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <numeric>
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

/// Single steps of two trajectories part a little and meet again; the mean of twenty shows whether one of them learns worse.
std::vector<double> window_means(const std::vector<double>& losses) {
  std::vector<double> means;
  for (std::size_t i = 0; i + 20 <= losses.size(); i += 20)
    means.push_back(std::accumulate(losses.begin() + static_cast<std::ptrdiff_t>(i), losses.begin() + static_cast<std::ptrdiff_t>(i) + 20, 0.0) / 20);
  return means;
}

TEST(Bf16, LossStaysWithinOnePercentOfFp32OverTwoHundredSteps) {
  const auto folder = fresh_folder();
  write_corpus(folder / "corpus.txt");
  ASSERT_EQ(
      run_optimus({"prepare", "--out", (folder / "data").string(), "--tokenizer", "bytes", "--sequence-length", "256", (folder / "corpus.txt").string()}).code,
      0);
  // Both at the same time, on a thread each.
  std::string script;
  for (const std::string weights : {"fp32", "bf16"}) {
    script += "OMP_NUM_THREADS=1 " +
              optimus_command({"pretrain", (std::filesystem::path(OPTIMUS_SOURCE_DIR) / "configs/quickstart.toml").string(), "--set",
                               "run.dir=" + (folder / weights).string(), "--set", "data.path=" + (folder / "data").string(), "--set", "run.stop_after_step=200",
                               "--set", "checkpoint.interval=0", "--set", "precision.weights=" + weights}) +
              " >/dev/null 2>&1 &\n";
  }
  std::ofstream(folder / "script") << script << "wait\n";
  ASSERT_EQ(std::system(("sh '" + (folder / "script").string() + "'").c_str()), 0);
  std::vector<std::vector<double>> losses(2);
  for (const auto& line : read_metrics(folder / "fp32")) losses[0].push_back(line["lm_loss"]);
  for (const auto& line : read_metrics(folder / "bf16")) losses[1].push_back(line["lm_loss"]);
  ASSERT_EQ(losses[0].size(), 200U);
  ASSERT_EQ(losses[1].size(), 200U);
  const auto expected = window_means(losses[0]), actual = window_means(losses[1]);
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 0.01 * expected[i]) << "steps " << 20 * i + 1 << " to " << 20 * i + 20;
  EXPECT_LT(actual.back(), 0.7 * actual.front()) << "it learns";
}

}  // namespace
}  // namespace optimus::test
