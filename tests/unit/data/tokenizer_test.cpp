#include <fmt/format.h>

#include "optimus/base/random.hpp"
#include "optimus/data/merges.hpp"
#include "optimus/data/pattern.hpp"
#include "optimus/data/utf8.hpp"
#include "tests/unit/data/data_testing.hpp"

namespace optimus {
namespace {

using namespace testing_data;
using nlohmann::json;

class TokenizerFiles : public testing::Test {
 protected:
  std::unique_ptr<Tokenizer> make(const json& file) { return make_tokenizer(folder_.write("tokenizer.json", file.dump())); }
  /// The words that a pre-tokenizer cuts `text` into: every byte is a token, so words show only where a merge would cross them.
  Ids ids(const json& file, const std::string& text) { return encode(*make(file), text); }
  std::string failure(const std::string& bytes) {
    return message_of<DataError>([&] { static_cast<void>(make_tokenizer(folder_.write("broken.json", bytes))); });
  }
  std::string failure(const json& file) { return failure(file.dump()); }
  TemporaryFolder folder_;
};

TEST(BytesTokenizer, MapsBytesToThemselvesAndBack) {
  const auto tokenizer = make_tokenizer("bytes");
  EXPECT_EQ(encode(*tokenizer, "a\xC3\xA9"), (Ids{97, 0xC3, 0xA9}));
  EXPECT_EQ(tokenizer->vocab_size(), 257);
  EXPECT_EQ(tokenizer->end_of_document(), 256);
  EXPECT_EQ(tokenizer->decode(Ids{97, 0xC3, 0xA9, 256, 999, -1, 0xFF}, true), "a\xC3\xA9\xEF\xBF\xBD");
  EXPECT_EQ(tokenizer->decode(Ids{97, 256}, false), "a<|endoftext|>");
}

TEST(Utf8, FindsTheFirstIllFormedByte) {
  EXPECT_EQ(find_ill_formed("plain \xC3\xA9 \xF0\x9F\x98\x80"), -1);
  EXPECT_EQ(find_ill_formed("ab\xFF"), 2);
  EXPECT_EQ(find_ill_formed("a\xC3"), 1);
  EXPECT_EQ(find_ill_formed("\xED\xA0\x80"), 0) << "a surrogate";
  EXPECT_EQ(find_ill_formed("\xC0\x80"), 0) << "an overlong form";
  EXPECT_EQ(find_ill_formed("\xF4\x90\x80\x80"), 0) << "above U+10FFFF";
}

TEST(Utf8, ReplacesEachMaximalSubpartOnce) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(replace_ill_formed("a\xF0\x9F\x98"
                               "b"),
            "a" + r + "b");
  EXPECT_EQ(replace_ill_formed("\xE2\x82\xE2\x82\xAC"), r + "\xE2\x82\xAC");
  EXPECT_EQ(replace_ill_formed("\xED\xA0\x80"), r + r + r);
  EXPECT_EQ(replace_ill_formed("\xC0\xAF"), r + r);
}

TEST(MergeTable, GivesWhatThePlainLoopGives) {
  // Random merges over four letters, words short and long enough for both ways of merging.
  const RandomStream random(7, "merges");
  std::vector<std::string> tokens{"a", "b", "c", "d"};
  std::vector<Merge> merges;
  for (Index i = 0; i < 60; ++i) {
    const auto left = static_cast<std::int32_t>(random.below(2 * i, tokens.size())), right = static_cast<std::int32_t>(random.below(2 * i + 1, tokens.size()));
    merges.push_back({left, right, static_cast<std::int32_t>(tokens.size())});
    tokens.push_back(tokens[static_cast<std::size_t>(left)] + tokens[static_cast<std::size_t>(right)]);
  }
  ByteTokens bytes;
  bytes.id.fill(-1);
  for (std::int32_t i = 0; i < 4; ++i) bytes.id[static_cast<std::size_t>('a' + i)] = i;
  const MergeTable table(merges, bytes);
  for (Index trial = 0; trial < 300; ++trial) {
    std::string word;
    const auto length = static_cast<Index>(1 + random.below(100000 + trial, trial % 3 == 0 ? 200 : 20));
    for (Index i = 0; i < length; ++i) word += static_cast<char>('a' + random.below(200000 + trial * 1000 + i, 4));
    Ids expected;
    for (const char c : word) expected.push_back(c - 'a');
    while (true) {
      std::size_t best = merges.size(), at = 0;
      for (std::size_t i = 0; i + 1 < expected.size(); ++i) {
        std::size_t rank = merges.size();  // of a pair listed twice the later rank counts
        for (std::size_t m = 0; m < merges.size(); ++m) {
          if (merges[m].left == expected[i] && merges[m].right == expected[i + 1]) rank = m;
        }
        if (rank < best) best = rank, at = i;
      }
      if (best == merges.size()) break;
      expected[at] = merges[best].result;
      expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
    Ids got;
    table.encode(word, got);
    ASSERT_EQ(got, expected) << word;
  }
}

TEST_F(TokenizerFiles, MergeAcrossNoWordBorder) {
  const json file = small_tokenizer({{"\u0120", "a"}, {"a", "b"}, {"ab", "\u0120"}});
  EXPECT_EQ(ids(file, "ab ab"), (Ids{257, 256, 'b'})) << "the space belongs to the second word";
}

TEST_F(TokenizerFiles, CutRawAddedTokensOutBeforeNormalisation) {
  json file = small_tokenizer();
  file["normalizer"] = {{"type", "NFC"}};
  const auto tokenizer = make(file);
  const Ids got = encode(*tokenizer, "<|endoftext|>\xCC\xB8");  // U+0338 would compose with the last character
  ASSERT_EQ(got.size(), 3U);
  EXPECT_EQ(got[0], 256);
  EXPECT_EQ(encode(*tokenizer, "e\xCC\x81"), (Ids{0xC3, 0xA9}));
}

TEST_F(TokenizerFiles, HonourTheFlagsOfAddedTokens) {
  json file = small_tokenizer();
  file["added_tokens"].push_back({{"id", 257}, {"content", "<m>"}, {"lstrip", true}, {"normalized", false}});
  file["added_tokens"].push_back({{"id", 258}, {"content", "<n>"}, {"rstrip", true}, {"normalized", false}});
  file["added_tokens"].push_back({{"id", 259}, {"content", "cat"}, {"single_word", true}, {"normalized", false}});
  const auto tokenizer = make(file);
  EXPECT_EQ(encode(*tokenizer, "a \t<m> b"), (Ids{'a', 257, ' ', 'b'}));
  EXPECT_EQ(encode(*tokenizer, "a <n>\xC2\xA0 b"), (Ids{'a', ' ', 258, 'b'})) << "no-break space is white space too";
  EXPECT_EQ(encode(*tokenizer, "cat."), (Ids{259, '.'}));
  EXPECT_EQ(encode(*tokenizer, "cats"), (Ids{'c', 'a', 't', 's'}));
  EXPECT_EQ(encode(*tokenizer, "_cat"), (Ids{'_', 'c', 'a', 't'}));
}

TEST_F(TokenizerFiles, FindTheLongestOfSeveralAddedTokens) {
  json file = small_tokenizer();
  file["added_tokens"].push_back({{"id", 257}, {"content", "ab"}, {"normalized", true}});
  file["added_tokens"].push_back({{"id", 258}, {"content", "abab"}, {"normalized", true}});
  EXPECT_EQ(ids(file, "ababab"), (Ids{258, 257}));
}

TEST_F(TokenizerFiles, AddAPrefixSpaceToEachPiece) {
  json file = small_tokenizer({{"\u0120", "a"}});
  file["pre_tokenizer"]["add_prefix_space"] = true;
  EXPECT_EQ(ids(file, "a<|endoftext|>a"), (Ids{256, 257, 256}));
  EXPECT_EQ(ids(file, " a"), (Ids{256})) << "there is one already";
  EXPECT_EQ(ids(file, ""), Ids());
}

TEST_F(TokenizerFiles, SplitByEveryBehavior) {
  // "xx" merges only where no word border falls between; so ids tell where the borders are.
  const auto with = [](const std::string& behavior, bool invert) {
    json file = small_tokenizer({{"a", "-"}, {"-", "b"}, {"-", "-"}});
    file["pre_tokenizer"] = {{"type", "Sequence"},
                             {"pretokenizers",
                              {{{"type", "Split"}, {"pattern", {{"String", "-"}}}, {"behavior", behavior}, {"invert", invert}},
                               {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
    return file;
  };
  EXPECT_EQ(ids(with("Removed", false), "a--b"), (Ids{'a', 'b'}));
  EXPECT_EQ(ids(with("Removed", true), "a--b"), (Ids{'-', '-'}));
  EXPECT_EQ(ids(with("Isolated", false), "a--b"), (Ids{'a', '-', '-', 'b'}));
  EXPECT_EQ(ids(with("Contiguous", false), "a--b"), (Ids{'a', 258, 'b'}));
  EXPECT_EQ(ids(with("MergedWithPrevious", false), "a--b"), (Ids{256, '-', 'b'}));
  EXPECT_EQ(ids(with("MergedWithNext", false), "a--b"), (Ids{'a', '-', 257}));
}

TEST_F(TokenizerFiles, SplitDigits) {
  json file = small_tokenizer({{"1", "2"}, {"a", "1"}});
  const auto with = [&](bool individual) {
    file["pre_tokenizer"] = {
        {"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "Digits"}, {"individual_digits", individual}}, {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
    return file;
  };
  EXPECT_EQ(ids(with(true), "a12"), (Ids{'a', '1', '2'}));
  EXPECT_EQ(ids(with(false), "a12"), (Ids{'a', 256}));
}

TEST_F(TokenizerFiles, TakeWholeWordsWhereMergesAreIgnored) {
  json file = small_tokenizer({{"a", "b"}, {"ab", "c"}});
  file["model"]["merges"] = json::array({{"b", "c"}});
  file["model"]["vocab"]["bc"] = 258;
  file["added_tokens"][0]["id"] = 259;
  EXPECT_EQ(ids(file, "abc"), (Ids{'a', 258}));
  file["model"]["ignore_merges"] = true;
  EXPECT_EQ(ids(file, "abc"), (Ids{257}));
  EXPECT_EQ(ids(file, "abcd"), (Ids{'a', 258, 'd'}));
}

TEST_F(TokenizerFiles, PutTheUnknownTokenWhereAByteHasNone) {
  json file = small_tokenizer();
  file["model"]["vocab"].erase("q");
  file["model"]["vocab"]["<unk>"] = static_cast<int>('q');
  EXPECT_EQ(ids(file, "aqqb"), (Ids{'a', 'b'})) << "left out, as the original does, with a warning";
  file["model"]["unk_token"] = "<unk>";
  EXPECT_EQ(ids(file, "aqqb"), (Ids{'a', 'q', 'q', 'b'}));
  file["model"]["fuse_unk"] = true;
  EXPECT_EQ(ids(file, "aqqb"), (Ids{'a', 'q', 'b'}));
}

TEST_F(TokenizerFiles, ReadMergesInBothSpellings) {
  json file = small_tokenizer({{"a", "b"}});
  EXPECT_EQ(ids(file, "ab"), Ids{256});
  file["model"]["merges"] = {"#version: 0.2", "a b"};
  EXPECT_EQ(ids(file, "ab"), Ids{256});
}

TEST_F(TokenizerFiles, RefuseIllFormedText) {
  const auto tokenizer = make(small_tokenizer());
  expect_contains(message_of<DataError>([&] { static_cast<void>(encode(*tokenizer, "ab\xFF")); }), {"UTF-8", "byte 2"});
}

TEST_F(TokenizerFiles, EncodeAMillionLettersWithoutASpace) {
  const auto tokenizer = make_tokenizer(fixture("small_2k.json"));
  const std::string text(1 << 20, 'a');
  EXPECT_EQ(tokenizer->decode(encode(*tokenizer, text), false), text);
  const std::string spaces(1 << 20, ' ');
  EXPECT_EQ(tokenizer->decode(encode(*tokenizer, spaces), false), spaces);
}

TEST_F(TokenizerFiles, NameTheFileAndWhatIsWrong) {
  expect_contains(message_of<DataError>([] { static_cast<void>(make_tokenizer("/nowhere/t.json")); }), {"/nowhere/t.json", "no such file"});
  expect_contains(failure(std::string()), {"broken.json", "empty"});
  expect_contains(failure(small_tokenizer().dump().substr(0, 700)), {"broken.json", "not JSON"});
  expect_contains(failure(std::string("\x7F"
                                      "ELF garbage")),
                  {"broken.json", "not JSON"});
  expect_contains(failure(json::array({1, 2})), {"broken.json", "object"});
  expect_contains(failure(json{{"a", 1}}), {"broken.json", "model"});

  json file = small_tokenizer();
  file["model"]["type"] = "WordPiece";
  expect_contains(failure(file), {"model", "WordPiece", "BPE"});
}

TEST_F(TokenizerFiles, NameDamagedVocabulariesAndMerges) {
  json file = small_tokenizer({{"a", "b"}});
  file["model"]["merges"].push_back({"a", "nope"});
  expect_contains(failure(file), {"model.merges[1]", "nope"});
  file["model"]["merges"] = {"a b c"};
  expect_contains(failure(file), {"model.merges[0]", "a b c"});

  file = small_tokenizer();
  file["model"]["vocab"]["a"] = 98;
  expect_contains(failure(file), {"98", "\"a\"", "\"b\""});
  file = small_tokenizer();
  file["model"]["vocab"].erase("a");
  expect_contains(failure(file), {"the id 97 has none"});
  file["model"]["vocab"]["a"] = "x";
  expect_contains(failure(file), {"\"a\"", "whole number"});
  file["model"]["vocab"]["a"] = -5;
  expect_contains(failure(file), {"-5", "out of range"});
  file = small_tokenizer();
  file["added_tokens"].push_back({{"id", 3}, {"content", "a"}});
  expect_contains(failure(file), {"added_tokens[1]", "3", "97"});
}

TEST_F(TokenizerFiles, NameTheStepThatIsNotSupported) {
  const auto with = [](const std::string& place, json value) {
    json file = small_tokenizer();
    file[json::json_pointer(place)] = std::move(value);
    return file;
  };
  expect_contains(failure(with("/normalizer", {{"type", "Lowercase"}})), {"normalizer", "Lowercase"});
  expect_contains(failure(with("/pre_tokenizer", {{"type", "Metaspace"}})), {"pre_tokenizer", "Metaspace"});
  expect_contains(failure(with("/pre_tokenizer", nullptr)), {"pre_tokenizer", "ByteLevel"});
  expect_contains(failure(with("/decoder", {{"type", "WordPiece"}})), {"decoder", "WordPiece"});
  expect_contains(failure(with("/post_processor", {{"type", "BertProcessing"}})), {"post_processor", "BertProcessing"});
  expect_contains(failure(with("/model/byte_fallback", true)), {"model.byte_fallback"});
  expect_contains(failure(with("/model/dropout", 0.1)), {"model.dropout"});
  expect_contains(failure(with("/model/end_of_word_suffix", "</w>")), {"model.end_of_word_suffix"});
  expect_contains(failure(with("/model/unk_token", "<unk>")), {"model.unk_token", "<unk>"});
  const auto split = [&](const std::string& pattern) {
    return with(
        "/pre_tokenizer",
        {{"type", "Sequence"}, {"pretokenizers", {{{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}}, {{"type", "ByteLevel"}}}}});
  };
  expect_contains(failure(split("a(")), {"pre_tokenizer.pretokenizers[0].pattern", "compiled"});
  expect_contains(failure(split("\\bword")), {"\\b"});
}

TEST(Patterns, MeanWhatTheyMeanInTheFile) {
  const auto matches = [](const std::string& pattern, const std::string& text) {
    Pattern::State state;
    Pattern::Match match;
    return Pattern(translate_pattern(pattern)).find(text, 0, state, match) && match.begin == 0 && match.end == text.size();
  };
  EXPECT_TRUE(matches("\\s", "\xC2\x85"));
  EXPECT_FALSE(matches("\\s", "\xE1\xA0\x8E")) << "U+180E is white space only for PCRE2";
  EXPECT_FALSE(matches("[\\s]", "\xE1\xA0\x8E"));
  EXPECT_TRUE(matches("\\S", "\xE1\xA0\x8E"));
  EXPECT_TRUE(matches("[\\S]+", "a\xE1\xA0\x8E"));
  EXPECT_FALSE(matches("[\\S]", " "));
  EXPECT_TRUE(matches("\\h", "f")) << "a hexadecimal digit";
  EXPECT_TRUE(matches("\\w+", "a_1\xCC\x81"));
  EXPECT_TRUE(matches("a{,2}", "aa"));
  EXPECT_TRUE(matches("(?i:'s)", "'\xC5\xBF")) << "U+017F folds to s";
  EXPECT_TRUE(matches("\\p{N}{1,3}", "\xC2\xB2"));
  EXPECT_TRUE(matches(escape_pattern("a.b*[c]"), "a.b*[c]"));
  for (const char* pattern : {"\\b", "[[a]]", "[a&&b]", "x(?i)y", "a{1,2}+", "(?x: a)", "\\1", "[a", "\\"}) {
    EXPECT_THROW(static_cast<void>(translate_pattern(pattern)), DataError) << pattern;
  }
}

}  // namespace
}  // namespace optimus
