// Ids and decoded texts of Hugging Face's tokenizers library, met exactly.

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "optimus/base/file.hpp"
#include "optimus/base/hash.hpp"
#include "optimus/data/tokenizer.hpp"

namespace optimus {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

/// A tokenizer file and the goldens beside it.
struct Golden {
  std::string folder, name;
  [[nodiscard]] std::unique_ptr<Tokenizer> tokenizer() const { return make_tokenizer(folder + "/" + name + ".json"); }
};
std::ostream& operator<<(std::ostream& out, const Golden& g) { return out << g.name; }

std::vector<Golden> goldens() {
  std::vector<Golden> all;
  std::istringstream list(OPTIMUS_TOKENIZERS);
  for (std::string entry; std::getline(list, entry, ',');) all.push_back({entry.substr(0, entry.find('=')), entry.substr(entry.find('=') + 1)});
  return all;
}

std::vector<json> lines_of(const std::string& path) {
  std::vector<json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
  return lines;
}

Ids encode(const Tokenizer& tokenizer, const std::string& text) {
  Ids ids;
  tokenizer.encode(text, ids);
  return ids;
}

class TokenizerGolden : public testing::TestWithParam<Golden> {};

TEST_P(TokenizerGolden, EncodesAndDecodesStringsAsHuggingFaceDoes) {
  const auto tokenizer = GetParam().tokenizer();
  const std::string& name = GetParam().name;
  const auto lines = lines_of(GetParam().folder + "/golden_strings.jsonl");
  ASSERT_EQ(lines.size(), 420U);
  for (const json& line : lines) {
    const Ids expected = line.at(name);
    EXPECT_EQ(encode(*tokenizer, line.at("text")), expected) << line.dump();
    EXPECT_EQ(tokenizer->decode(expected, false), line.at(name + "_decoded").get<std::string>()) << line.dump();
    const std::string skipped = line.contains(name + "_decoded_skip_special") ? name + "_decoded_skip_special" : name + "_decoded";
    EXPECT_EQ(tokenizer->decode(expected, true), line.at(skipped).get<std::string>()) << line.dump();
  }
}

TEST_P(TokenizerGolden, DecodesAnyIdsAsHuggingFaceDoes) {
  const auto tokenizer = GetParam().tokenizer();
  int compared = 0;
  for (const json& line : lines_of(GetParam().folder + "/golden_decode.jsonl")) {
    if (line.at("tokenizer") != GetParam().name) continue;
    ++compared;
    const Ids ids = line.at("ids");
    EXPECT_EQ(tokenizer->decode(ids, false), line.at("decoded").get<std::string>()) << line.dump();
    EXPECT_EQ(tokenizer->decode(ids, true), line.at("decoded_skip_special").get<std::string>()) << line.dump();
  }
  EXPECT_GT(compared, 20);
}

TEST_P(TokenizerGolden, KnowsTheEndOfADocument) {
  const auto tokenizer = GetParam().tokenizer();
  ASSERT_TRUE(tokenizer->end_of_document().has_value());
  EXPECT_EQ(tokenizer->decode(Ids{*tokenizer->end_of_document()}, false), "<|endoftext|>");
}

INSTANTIATE_TEST_SUITE_P(Files, TokenizerGolden, testing::ValuesIn(goldens()), [](const auto& param) { return param.param.name; });

/// Whole texts, by count and hash; and strings on which Unicode versions differ. Both lie only beside the published tokenizers.
class TokenizerTexts : public testing::TestWithParam<std::string> {};

TEST_P(TokenizerTexts, GiveTheSameIds) {
  const std::string shared = OPTIMUS_GOLDEN_TEXTS;
  const json golden = json::parse(read_file(shared + "/tokenizers/golden_texts.json")).at("tokenizers").at(GetParam());
  const auto tokenizer = make_tokenizer(shared + "/tokenizers/" + GetParam() + ".json");
  ASSERT_EQ(golden.size(), 3U);
  for (const auto& [file, expected] : golden.items()) {
    const std::string text = read_file(shared + "/text/" + file);
    const Ids ids = encode(*tokenizer, text);
    EXPECT_EQ(ids.size(), expected.at("ids").get<std::size_t>()) << file;
    EXPECT_EQ(hex64(xxh64(std::as_bytes(std::span(ids)))), expected.at("xxh64").get<std::string>()) << file;
    EXPECT_EQ(tokenizer->decode(ids, false) == text, expected.at("round_trip").get<bool>()) << file;
  }
}

TEST_P(TokenizerTexts, DoNotFailOnNewerUnicode) {
  const std::string shared = OPTIMUS_GOLDEN_TEXTS;
  const auto tokenizer = make_tokenizer(shared + "/tokenizers/" + GetParam() + ".json");
  const auto lines = lines_of(shared + "/tokenizers/golden_unicode_versions.jsonl");
  ASSERT_EQ(lines.size(), 14U);
  for (const json& line : lines) EXPECT_FALSE(encode(*tokenizer, line.at("text")).empty());
}

std::vector<std::string> published() {
  if (std::string(OPTIMUS_GOLDEN_TEXTS).empty()) return {};
  return {"olmo", "dolma2", "small_2k"};
}
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TokenizerTexts);
INSTANTIATE_TEST_SUITE_P(Files, TokenizerTexts, testing::ValuesIn(published()), [](const auto& param) { return param.param; });

}  // namespace
}  // namespace optimus
