// `optimus eval`, `generate` and `loss` as a user types them, mistakes included.

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "tests/support/cli_testing.hpp"

namespace optimus {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

const std::string kReference = OPTIMUS_SOURCE_DIR "/tests/data/reference/";
const std::string kTokenizer = OPTIMUS_SOURCE_DIR "/tests/data/tokenizers/small_2k.json";

void write_text(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

/// A run of a few steps over bytes.
fs::path train_on_bytes(const fs::path& folder) {
  write_text(folder / "corpus.txt", std::string(3000, 'a') + "bcd");
  EXPECT_EQ(
      test::run_optimus({"prepare", "--out", (folder / "data").string(), "--tokenizer", "bytes", "--sequence-length", "16", (folder / "corpus.txt").string()})
          .code,
      0);
  const fs::path config = test::write_toy_config(folder, folder / "data");
  const fs::path run = folder / "run";
  const auto result =
      test::run_optimus({"pretrain", config.string(), "--set", "run.dir=" + run.string(), "--set", "run.steps=3", "--set", "model.vocab_size=257"});
  EXPECT_EQ(result.code, 0) << result.err;
  return run;
}

TEST(Eval, ATrainedRunPredictsTextAndWritesIt) {
  const fs::path folder = test::fresh_folder();
  const fs::path run = train_on_bytes(folder);
  write_text(folder / "text.txt", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
  const auto scored = test::run_optimus({"eval", "--model", run.string(), "--tokenizer", "bytes", "--text", (folder / "text.txt").string(), "--json"});
  ASSERT_EQ(scored.code, 0) << scored.err;
  const Json result = Json::parse(scored.out);
  EXPECT_EQ(result.at("bytes"), 40);
  EXPECT_EQ(result.at("tokens"), 40);
  // Bytes are tokens here, so the two figures say the same.
  EXPECT_NEAR(std::log2(result.at("perplexity").get<double>()), result.at("bits_per_byte").get<double>(), 1e-9);

  const std::vector<std::string> command = {"generate", "--model",          run.string(), "--tokenizer",   "bytes", "--prompt",
                                            "aa",       "--max-new-tokens", "5",          "--temperature", "0",     "--echo"};
  const auto written = test::run_optimus(command);
  ASSERT_EQ(written.code, 0) << written.err;
  EXPECT_EQ(written.out.substr(0, 2), "aa");
  EXPECT_EQ(written.out, test::run_optimus(command).out);

  const auto picture = test::run_optimus({"loss", run.string(), "--dataset", (folder / "data").string()});
  ASSERT_EQ(picture.code, 0) << picture.err;
  EXPECT_NE(picture.out.find("unigram entropy"), std::string::npos);
}

TEST(Eval, TextOnTwoRanksScoresTheSame) {
  const fs::path folder = test::fresh_folder();
  std::string text;
  for (int i = 0; i < 400; ++i) text += "the " + std::to_string(i) + ' ';
  write_text(folder / "text.txt", text);
  const std::vector<std::string> command = {"eval",  "--model", kReference + "tiny-olmoe",      "--tokenizer",
                                            "bytes", "--text",  (folder / "text.txt").string(), "--json"};
  const auto one = test::run_optimus(command), two = test::run_optimus(command, 2);
  ASSERT_EQ(one.code, 0) << one.err;
  ASSERT_EQ(two.code, 0) << two.err;
  EXPECT_EQ(Json::parse(one.out), Json::parse(two.out));
}

/// Exit code and a word of the message.
struct Mistake {
  std::vector<std::string> command;
  int code;
  std::string word;
};

TEST(Eval, MistakesAreNamed) {
  const fs::path folder = test::fresh_folder();
  write_text(folder / "empty.jsonl", "");
  write_text(folder / "broken.jsonl", "{\"request_type\": \"loglikelihood\"}\n");
  write_text(folder / "empty.txt", "");
  fs::create_directories(folder / "nothing");
  const std::string model = kReference + "tiny-olmoe", dir = folder.string();
  const std::vector<Mistake> mistakes = {
      {{"eval", "--model", model, "--tokenizer", "bytes"}, 2, "--requests or --text"},
      {{"eval", "--model", dir + "/missing", "--tokenizer", "bytes", "--text", dir + "/empty.txt"}, 4, "missing"},
      {{"eval", "--model", dir + "/nothing", "--tokenizer", "bytes", "--text", dir + "/empty.txt"}, 4, "nothing"},
      {{"eval", "--model", model, "--tokenizer", dir + "/none.json", "--text", dir + "/empty.txt"}, 3, "none.json"},
      {{"eval", "--model", model, "--tokenizer", kTokenizer, "--text", dir + "/empty.txt"}, 3, "another tokenizer"},
      {{"eval", "--model", model, "--tokenizer", "bytes", "--requests", dir + "/empty.jsonl"}, 3, "empty.jsonl"},
      {{"eval", "--model", model, "--tokenizer", "bytes", "--requests", dir + "/broken.jsonl"}, 3, "broken.jsonl:1"},
      {{"eval", "--model", model, "--tokenizer", "bytes", "--requests", dir + "/absent.jsonl"}, 3, "absent.jsonl"},
      {{"generate", "--model", model, "--tokenizer", "bytes", "--prompt", std::string(300, 'x')}, 3, "prompt"},
      {{"generate", "--model", model, "--tokenizer", "bytes", "--prompt", "x", "--temperature", "-1"}, 2, "temperature"},
      {{"loss", dir + "/nothing"}, 1, "metrics.jsonl"},
  };
  for (const Mistake& mistake : mistakes) {
    const auto result = test::run_optimus(mistake.command);
    EXPECT_EQ(result.code, mistake.code) << result.err;
    EXPECT_NE(result.err.find(mistake.word), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "");
  }
}

}  // namespace
}  // namespace optimus
