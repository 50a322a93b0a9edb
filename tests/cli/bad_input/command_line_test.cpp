// Slips on the command line of every command.

#include <fstream>

#include "tests/cli/pretrain/support.hpp"

namespace optimus::test {
namespace {

class CommandLine : public Pretrain {};

TEST(CommandNames, AWordThatIsNoneIsNamedWithTheNearest) {
  auto result = run_optimus({"pretrian"});
  EXPECT_EQ(result.code, 2);
  EXPECT_HAS(result.err, "\"pretrian\"; the nearest is \"pretrain\"");
  result = run_optimus({"checkpoint", "verfy", "x"});
  EXPECT_EQ(result.code, 2);
  EXPECT_HAS(result.err, "\"verify\"");
}

TEST_F(CommandLine, NumbersOutOfTheirRangeAreRefused) {
  const std::string text = (folder_ / "a.txt").string(), out = (folder_ / "out").string();
  std::ofstream(text) << "Some words of a text.";
  const auto prepare = [&](const std::vector<std::string>& options) {
    std::vector<std::string> all = {"prepare", "--out", out, "--tokenizer", "bytes", text};
    all.insert(all.end(), options.begin(), options.end());
    return run_optimus(all);
  };
  const std::vector<std::vector<std::string>> slips = {{"--sequence-length", "9223372036854775807"},
                                                       {"--sequence-length", "99999999999999999999"},
                                                       {"--sequence-length", "8", "--seed", "-1"},
                                                       {"--sequence-length", "8", "--workers", "100000"},
                                                       {"--sequence-length", "8", "--vocab-size", "0"}};
  for (const auto& slip : slips) {
    const auto result = prepare(slip);
    EXPECT_EQ(result.code, 2) << slip.back();
    EXPECT_HAS(result.err, slip[slip.size() - 2]);
    EXPECT_HAS(result.err, slip.back());
    EXPECT_FALSE(std::filesystem::exists(out));
  }
}

TEST_F(CommandLine, SamplingOptionsMustBeNumbers) {
  for (const auto& [option, value] : std::vector<std::pair<std::string, std::string>>{
           {"--temperature", "nan"}, {"--top-p", "nan"}, {"--seed", "-1"}, {"--seed", "99999999999999999999"}, {"--max-new-tokens", "99999999999999999999"}}) {
    const auto result = run_optimus({"generate", "--model", run_.string(), "--tokenizer", "bytes", option, value});
    EXPECT_EQ(result.code, 2) << option << " " << value;
    EXPECT_HAS(result.err, value);
    EXPECT_LT(result.err.size(), 200U) << "no limits of 300 digits";
  }
}

TEST_F(CommandLine, OptionsOfADryRunNeedIt) {
  for (const std::vector<std::string>& options : {std::vector<std::string>{"--world", "2"}, std::vector<std::string>{"--json"}}) {
    EXPECT_EQ(run_optimus(args({}, options)).code, 2) << options.front();
  }
  EXPECT_FALSE(std::filesystem::exists(run_));
}

TEST_F(CommandLine, AnEmptyPathIsNotTheCurrentFolder) {
  auto result = run({"run.dir="});
  EXPECT_EQ(result.code, 2);
  EXPECT_HAS(result.err, "run.dir");
  result = run_optimus({"prepare", "--out", "", "--tokenizer", "none", "--sequence-length", "16", (folder_ / "ids.jsonl").string()});
  EXPECT_EQ(result.code, 2);
}

TEST_F(CommandLine, ResultsThatCannotBeWrittenAreAFailure) {
  for (const auto& command : {args({}, {"--dry-run"}), std::vector<std::string>{"dataset", "inspect", data_.string()}}) {
    const std::string line = optimus_command(command) + " >/dev/full 2>/dev/null";
    EXPECT_EQ(WEXITSTATUS(std::system(line.c_str())), 1) << line;
  }
}

TEST_F(CommandLine, SizesBeyondAllUseAreRefusedAtOnce) {
  for (const std::string setting :
       {"model.num_hidden_layers=1000000", "model.num_experts=2000000000", "batch.micro_batch=9223372036854775807", "parallel.tp=9223372036854775807"}) {
    const auto result = run({setting}, 0, "timeout 10");
    EXPECT_EQ(result.code, 2) << setting << result.err;
    EXPECT_HAS(result.err, setting.substr(0, setting.find('=')));
  }
}

TEST_F(CommandLine, SettingsMayHaveSpacesAndTomlThatWouldOverrunTheParserIsRefused) {
  EXPECT_EQ(run_optimus(args({"optimizer.lr = 1e-3"}, {"--dry-run"})).code, 0);
  std::string key = "a";
  for (int i = 0; i < 100'000; ++i) key += ".a";
  std::ofstream(config_, std::ios::app) << key << " = 1\n";
  const auto result = run({});
  EXPECT_EQ(result.code, 2);
  EXPECT_HAS(result.err, "256 steps");
}

}  // namespace
}  // namespace optimus::test
