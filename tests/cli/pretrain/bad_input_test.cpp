#include <fstream>

#include "support.hpp"

namespace optimus::test {
namespace {

class BadInput : public Pretrain {};
class Benchmark : public Pretrain {};

TEST_F(BadInput, ConfigurationProblemsAreAllNamedWithTheirPlace) {
  std::ofstream(config_, std::ios::app) << "intervall = 5\n";
  const auto result = run({"model.num_attention_heads=5", "batch.micro_batch=3", "optimizer.lr=fast"});
  EXPECT_EQ(result.code, 2);
  for (const char* part : {"checkpoint.intervall", "interval", "toml:", "batch.global_batch", "optimizer.lr", "num_attention_heads"})
    EXPECT_HAS(result.err, part);
  EXPECT_FALSE(std::filesystem::exists(run_)) << "nothing is made for a run that cannot be";
}

TEST_F(BadInput, UnderMpiRankZeroAloneSpeaks) {
  const auto result = run({"batch.micro_batch=3"}, 2);
  EXPECT_EQ(result.code, 2);
  const auto first = result.err.find("batch.global_batch");
  ASSERT_NE(first, std::string::npos) << result.err;
  EXPECT_EQ(result.err.find("batch.global_batch", first + 1), std::string::npos) << result.err;
}

TEST_F(BadInput, FilesThatAreMissingOrNotWhatTheyShouldBe) {
  EXPECT_EQ(run_optimus({"pretrain", (folder_ / "no.toml").string()}).code, 2);
  std::ofstream(folder_ / "bad.toml") << "[run\n";
  EXPECT_EQ(run_optimus({"pretrain", (folder_ / "bad.toml").string()}).code, 2);
  EXPECT_EQ(run_optimus({"pretrain"}).code, 2);
  EXPECT_EQ(run_optimus({"pretrain", config_.string(), "--nonsense"}).code, 2);
  EXPECT_EQ(run({"model.hf_config=" + (folder_ / "none.json").string()}).code, 2);
  EXPECT_EQ(run({"data.path=" + (folder_ / "none").string()}).code, 3);
  EXPECT_EQ(run({"run.resume=" + (folder_ / "none").string()}).code, 4);
  EXPECT_EQ(run({"run.init_from=" + (folder_ / "none").string()}).code, 4);
}

TEST_F(BadInput, DataThatDoesNotFitTheModel) {
  auto result = run({"model.vocab_size=32"});
  EXPECT_EQ(result.code, 3);
  EXPECT_HAS(result.err, "32");
  result = run({"data.sequence_length=8"});
  EXPECT_EQ(result.code, 3);
  EXPECT_HAS(result.err, "16");
  result = run({"data.mask_document_boundaries=true"});
  EXPECT_EQ(result.code, 3);
  EXPECT_HAS(result.err, "end-of-document");
}

TEST_F(BadInput, WeightsOfAnotherShapeAreNamed) {
  const auto reference = std::filesystem::path(OPTIMUS_SOURCE_DIR) / "tests/data/reference/tiny-olmoe";
  const auto result = run({"run.init_from=" + reference.string()});
  EXPECT_EQ(result.code, 4);
  EXPECT_HAS(result.err, "model.embed_tokens.weight");
}

TEST(DryRunCommand, AnswersForTheLargestModelWithoutItsMemory) {
  const auto config = std::filesystem::path(OPTIMUS_SOURCE_DIR) / "configs/mula-220b-a10b.toml";
  const auto result = run_optimus({"pretrain", config.string(), "--dry-run", "--world", "12288", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["parameters"], 220205681664);
  std::int64_t sum = 0;
  for (const auto& [kind, bytes] : json["bytes_per_rank"].items()) sum += kind == "sum" ? 0 : bytes.get<std::int64_t>();
  EXPECT_EQ(json["bytes_per_rank"]["sum"], sum);
  EXPECT_GT(json["flops_per_token"], 6e10);
  EXPECT_EQ(json["layout"]["dp"], 128);
}

TEST(DryRunCommand, ReadsEveryExampleConfiguration) {
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(OPTIMUS_SOURCE_DIR) / "configs")) {
    const bool is_small = entry.path().stem() == "quickstart";
    const auto result = run_optimus({"pretrain", entry.path().string(), "--dry-run", "--world", is_small ? "2" : "96"});
    EXPECT_EQ(result.code, 0) << entry.path() << result.err;
  }
}

TEST_F(Benchmark, ReportsAStepOfAnyConfiguration) {
  const auto result = run_optimus({"bench", "step", "--config", config_.string(), "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  for (const char* key : {"tokens", "step_s", "tokens_per_s", "gflops", "peak_gflops", "fraction_of_peak", "phases"}) EXPECT_TRUE(json.contains(key)) << key;
  EXPECT_EQ(json["tokens"], 128);
  for (const char* phase : {"forward_backward", "reduce", "update"}) EXPECT_GT(json["phases"][phase]["seconds"], 0) << phase;
  EXPECT_EQ(run_optimus({"bench", "step", "--config", "no-such-benchmark"}).code, 2);
}

TEST(Version, IsPrinted) {
  EXPECT_EQ(run_optimus({"version"}).code, 0);
  EXPECT_TRUE(nlohmann::json::parse(run_optimus({"version", "--json"}).out).contains("version"));
}

}  // namespace
}  // namespace optimus::test
