// `optimus eval` against log-likelihoods of an independent implementation in double.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <tuple>

#include "optimus/base/index.hpp"
#include "optimus/data/byte_stream.hpp"
#include "tests/support/cli_testing.hpp"

namespace optimus {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Key = std::tuple<std::string, Index, Index>;

const fs::path kData = OPTIMUS_EVAL_DATA;
// Below this difference of routing probabilities another order of sums may choose another expert.
constexpr double kNearTie = 1e-6;

Key key_of(const Json& line) { return {line.at("task_name"), line.at("doc_id"), line.at("idx")}; }

std::vector<std::string> read_lines(const fs::path& path) {
  std::vector<std::string> lines;
  const auto stream = open_byte_stream(path, path.extension() == ".gz" ? Compression::kGzip : Compression::kNone);
  for_each_line(*stream, [&](const std::string& line) { lines.push_back(line); });
  return lines;
}

std::map<Key, Json> read_goldens(const std::string& task) {
  std::map<Key, Json> goldens;
  for (const std::string& text : read_lines(kData / "eval" / fmt::format("golden_{}.jsonl.gz", task))) {
    Json line = Json::parse(text);
    const Key key = key_of(line);
    goldens.emplace(key, std::move(line));
  }
  return goldens;
}

/// The requests of the first `documents` documents.
fs::path write_requests(const fs::path& folder, const std::string& file, Index documents) {
  const fs::path path = folder / "requests.jsonl";
  std::ofstream out(path);
  for (const std::string& text : read_lines(kData / "eval" / file)) {
    if (Json::parse(text).at("doc_id").get<Index>() % 1000000 < documents) out << text << '\n';
  }
  return path;
}

struct Case {
  const char* task;
  const char* file;
  Index documents;
  int ranks;
};

class EvalGolden : public ::testing::TestWithParam<Case> {};

TEST_P(EvalGolden, LogLikelihoodsAndScoresAgree) {
  const Case c = GetParam();
  const fs::path folder = test::fresh_folder();
  const fs::path requests = write_requests(folder, c.file, c.documents), scores = folder / "scores.jsonl";
  const auto run = test::run_optimus({"eval", "--model", (kData / "reference/eval-olmoe").string(), "--tokenizer", (kData / "tokenizers/olmo.json").string(),
                                      "--requests", requests.string(), "--per-request", scores.string(), "--json"},
                                     c.ranks);
  ASSERT_EQ(run.code, 0) << run.err;
  const auto goldens = read_goldens(c.task);
  std::size_t compared = 0;
  for (const std::string& text : read_lines(scores)) {
    const Json line = Json::parse(text);
    const Json& golden = goldens.at(key_of(line));
    EXPECT_EQ(line.at("continuation_tokens"), golden.at("continuation_tokens")) << text;
    ++compared;
    if (golden.at("router_gap").get<double>() < kNearTie) continue;
    const double want = golden.at("logprob_f64");
    EXPECT_NEAR(line.at("logprob").get<double>(), want, 3e-6 * std::max(1.0, std::abs(want))) << text;
    EXPECT_EQ(line.at("is_greedy"), golden.at("is_greedy")) << text;
  }
  EXPECT_EQ(compared, read_lines(requests).size());

  // The picks of these documents, made again from the goldens' own likelihoods.
  std::map<Index, std::pair<std::pair<double, Index>, Index>> best;
  for (const auto& [key, golden] : goldens) {
    const auto& [task, document, choice] = key;
    if (document >= c.documents) continue;
    const double logprob = golden.at("logprob_f64");
    const auto [at, is_new] = best.try_emplace(document, std::pair(logprob, choice), golden.at("label").get<Index>());
    if (!is_new && logprob > at->second.first.first) at->second.first = {logprob, choice};
  }
  double right = 0;
  for (const auto& [document, pick] : best) right += pick.first.second == pick.second ? 1 : 0;
  const Json result = Json::parse(run.out).at("tasks").at(c.task);
  EXPECT_EQ(result.at("documents").get<std::size_t>(), best.size());
  EXPECT_NEAR(result.at("acc").get<double>(), right / static_cast<double>(best.size()), 1e-12);
}

INSTANTIATE_TEST_SUITE_P(Tasks, EvalGolden,
                         ::testing::Values(Case{"edge", "edge.jsonl.gz", 1000, 0}, Case{"arc_easy", "arc_easy.rc_0shot.jsonl.gz", 20, 2},
                                           Case{"boolq", "boolq.rc_0shot.jsonl.gz", 8, 0}, Case{"hellaswag", "hellaswag.rc_5shot.jsonl.gz", 4, 0},
                                           Case{"piqa", "piqa.rc_0shot.jsonl.gz", 20, 0}, Case{"sciq", "sciq.rc_0shot.jsonl.gz", 10, 0}),
                         [](const auto& test) { return std::string(test.param.task); });

}  // namespace
}  // namespace optimus
