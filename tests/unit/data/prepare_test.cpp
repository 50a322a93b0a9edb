#include "optimus/data/prepare.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "optimus/base/hash.hpp"
#include "optimus/data/corpus_samples.hpp"
#include "optimus/data/input_files.hpp"
#include "tests/unit/data/data_testing.hpp"

namespace optimus {
namespace {

using namespace testing_data;

Ids bytes_with_end(const std::vector<std::string>& documents) {
  Ids ids;
  for (const std::string& document : documents) {
    for (const char c : document) ids.push_back(static_cast<unsigned char>(c));
    ids.push_back(256);
  }
  return ids;
}

class Prepare : public testing::Test {
 protected:
  PrepareOptions options(std::vector<std::string> inputs, Index sequence_length = 4) {
    PrepareOptions o;
    o.out = out_;
    o.inputs = std::move(inputs);
    o.sequence_length = sequence_length;
    return o;
  }
  PrepareOptions ids_options(std::vector<std::string> inputs, Index sequence_length = 4) {
    PrepareOptions o = options(std::move(inputs), sequence_length);
    o.tokenizer = "none";
    return o;
  }
  /// The one sample of a corpus that is just one sample long.
  Ids only_sample() {
    const std::vector<Ids> samples = samples_of(out_);
    EXPECT_EQ(samples.size(), 1U);
    return samples.empty() ? Ids() : samples[0];
  }
  std::string failure(const PrepareOptions& o) {
    return message_of<DataError>([&] { run_prepare(o); });
  }
  std::string refusal(const PrepareOptions& o) {
    return message_of<ConfigError>([&] { run_prepare(o); });
  }
  void start_again() { fs::remove_all(out_); }

  TemporaryFolder folder_;
  fs::path out_ = folder_.path() / "out";
};

TEST_F(Prepare, ReadsATextFileAsOneDocument) {
  run_prepare(options({folder_.write("a.txt", "one\n\ntwo\r\n")}, 10));
  EXPECT_EQ(only_sample(), bytes_with_end({"one\n\ntwo\r\n"}));
}

TEST_F(Prepare, SplitsTextAtBlankLinesOnRequest) {
  auto o = options({folder_.write("a.txt", "\n \none\nmore\n\n\t\r\n  two\r\n\r\nthree\n")}, 20);
  o.separator = DocumentSeparator::kBlankLine;
  EXPECT_EQ(run_prepare(o).num_documents, 3);
  const Ids expected = bytes_with_end({"one\nmore", "  two", "three"});
  EXPECT_EQ(only_sample(), Ids(expected.begin(), expected.begin() + 21));
}

TEST_F(Prepare, ReadsCompressedFilesOfSeveralMembers) {
  const std::string one = "{\"text\": \"ab\"}\n", two = "{\"text\": \"cd\"}\n";
  for (const auto& [name, bytes] :
       {std::pair{"a.jsonl.gz", gzip(one) + gzip(two)}, std::pair{"a.jsonl.zst", zstd(one) + zstd(two)}, std::pair{"a.jsonl", one + two}}) {
    run_prepare(options({folder_.write(name, bytes)}, 5));
    EXPECT_EQ(only_sample(), bytes_with_end({"ab", "cd"})) << name;
    start_again();
  }
  run_prepare(options({folder_.write("t.txt.gz", gzip("abcd"))}));
  EXPECT_EQ(only_sample(), bytes_with_end({"abcd"}));
}

TEST_F(Prepare, TakesGivenIdsAsTheyAre) {
  const Ids expected{1, 2, 70000, 4, 5};
  const auto check = [&](const std::string& path, const std::string& bin_dtype) {
    auto o = ids_options({path});
    o.bin_dtype = bin_dtype;
    const DatasetInfo info = run_prepare(o);
    EXPECT_EQ(only_sample(), expected) << path;
    EXPECT_EQ(info.vocab_size, 70001);
    EXPECT_EQ(info.token_type, "uint32");
    EXPECT_EQ(info.end_of_document, -1);
    start_again();
  };
  check(folder_.write("a.jsonl", "{\"tokens\": [1, 2]}\n{\"tokens\": []}\n{\"text\": \"x\", \"tokens\": [70000, 4, 5]}\n"), "");
  check(folder_.write("a.npy", npy("<u4", {5}, raw<std::uint32_t>({1, 2, 70000, 4, 5}))), "");
  check(folder_.write("b.npy", npy("<i8", {5}, raw<std::int64_t>({1, 2, 70000, 4, 5}))), "");
  check(folder_.write("a.bin", raw<std::uint32_t>({1, 2, 70000, 4, 5})), "uint32");
}

TEST_F(Prepare, ReadsLargeArraysWhereTheyLie) {
  std::vector<std::uint16_t> ids(1000);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::uint16_t>(i);
  auto o = ids_options(
      {folder_.write("a.bin", raw(ids)), folder_.write("b.npy", npy("<u2", {1000}, raw(ids))), folder_.write("c.jsonl", "{\"tokens\": [7, 7, 7, 7, 7]}")});
  o.bin_dtype = "uint16";
  const DatasetInfo copied = run_prepare(o);
  const auto files = files_of(out_);
  start_again();
  o.part_bytes = 500;
  EXPECT_EQ(run_prepare(o).num_samples, copied.num_samples);
  EXPECT_EQ(files_of(out_), files);
  EXPECT_EQ(copied.num_samples, 249 + 249 + 1);
  EXPECT_EQ(copied.num_dropped_tokens, 3 + 3);
}

TEST_F(Prepare, CountsDocumentsTokensAndWhatIsDropped) {
  const auto info = run_prepare(options({folder_.write("a.jsonl", "{\"text\": \"abcdefg\"}\n\n{\"text\": \"\"}\n{\"text\": \"h\"}\n"),
                                         folder_.write("b.txt", "xy"), folder_.write("c.txt", "")}));
  EXPECT_EQ(info.num_documents, 3);
  EXPECT_EQ(info.num_empty_documents, 2);
  EXPECT_EQ(info.num_tokens, 8 + 2 + 3);
  EXPECT_EQ(info.num_samples, 2) << "floor((10 - 1) / 4) of a, none of b";
  EXPECT_EQ(info.num_dropped_tokens, 1 + 3);
  EXPECT_EQ(info.vocab_size, 257);
  EXPECT_EQ(info.token_type, "uint16");
}

TEST_F(Prepare, HoldsEverySampleOnceInShuffledOrderAtStrideS) {
  Ids ids(1001);
  nlohmann::json line;
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i);
  line["tokens"] = ids;
  auto o = ids_options({folder_.write("a.jsonl", line.dump())});
  o.shard_tokens = 100;
  const DatasetInfo info = run_prepare(o);
  EXPECT_EQ(info.shards.size(), 10U) << "25 samples of 4 in each of 10";
  std::vector<Ids> samples = samples_of(out_);
  ASSERT_EQ(samples.size(), 250U);
  EXPECT_NE(samples[0][0], 0);
  EXPECT_FALSE(std::is_sorted(samples.begin(), samples.end()));
  std::sort(samples.begin(), samples.end());
  for (std::int32_t i = 0; i < 250; ++i) EXPECT_EQ(samples[static_cast<std::size_t>(i)], (Ids{4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3, 4 * i + 4}));
}

TEST_F(Prepare, UsesTheTokenizerFileAndKeepsACopy) {
  auto o = options({folder_.write("a.txt", "To be, or not to be, that is the question")}, 3);
  o.tokenizer = fixture("small_2k.json");
  const DatasetInfo info = run_prepare(o);
  EXPECT_EQ(info.tokenizer, "small_2k.json");
  EXPECT_EQ(info.vocab_size, 2000);
  EXPECT_EQ(info.end_of_document, 0);
  EXPECT_EQ(make_tokenizer((out_ / "small_2k.json").string())->checksum(), info.tokenizer_checksum);
}

TEST_F(Prepare, FindsFilesOfFoldersAndGlobsInOrder) {
  folder_.write("in/b.txt", "bb");
  folder_.write("in/a/z.txt", "az");
  folder_.write("in/c.txt.zst", zstd("cc"));
  folder_.write("in/.hidden.txt", "hh");
  folder_.write("in/readme.md", "rr");
  const std::string in = (folder_.path() / "in").string();
  const auto names = [&](const std::vector<std::string>& inputs) {
    std::vector<std::string> found;
    for (const InputFile& file : find_input_files(inputs, in + "/out")) found.push_back(fs::relative(file.path, in).string());
    return found;
  };
  EXPECT_EQ(names({in}), (std::vector<std::string>{"a/z.txt", "b.txt", "c.txt.zst"}));
  EXPECT_EQ(names({in + "/*.txt*"}), (std::vector<std::string>{"b.txt", "c.txt.zst"}));
  EXPECT_EQ(names({in + "/c*", in + "/b.txt"}), (std::vector<std::string>{"c.txt.zst", "b.txt"}));
  folder_.write("in/out/shards/s.npy", "x");
  EXPECT_EQ(names({in}).size(), 3U) << "the output is no input";
}

TEST_F(Prepare, GivesTheSameBytesForAnyNumberOfWorkersAndParts) {
  std::string lines, text;
  for (int i = 0; i < 4000; ++i) {
    lines +=
        nlohmann::json{{"text", fmt::format("Document {} says: {}\n", i, std::string(static_cast<std::size_t>(i * 7919 % 331), 'a' + i % 26))}}.dump() + "\n";
    text += fmt::format("line {}\n{}", i, i % 5 == 0 ? "\n" : "");
  }
  auto o = options(
      {folder_.write("a.jsonl", lines), folder_.write("b.txt", text), folder_.write("c.jsonl.gz", gzip(lines)), folder_.write("d.txt.zst", zstd(text))}, 64);
  o.separator = DocumentSeparator::kBlankLine;
  o.tokenizer = fixture("small_2k.json");
  o.shard_tokens = 40000;
  std::map<std::string, std::string> first;
  for (const auto& [workers, part_bytes] : {std::pair<Index, Index>{1, 1 << 30}, {2, 1 << 18}, {4, 1}, {4, 1 << 30}}) {
    o.num_workers = workers;
    o.part_bytes = part_bytes;
    run_prepare(o);
    if (first.empty()) first = files_of(out_);
    EXPECT_GT(first.size(), 5U);
    EXPECT_EQ(files_of(out_), first) << workers << " workers";
    start_again();
  }
  o.seed = 2;
  run_prepare(o);
  EXPECT_NE(files_of(out_), first);
}

TEST_F(Prepare, SaysThatAFinishedFolderIsFinishedAndLeavesIt) {
  const auto o = options({folder_.write("a.txt", "abcdefgh")});
  run_prepare(o);
  const auto before = fs::last_write_time(out_ / "dataset.json");
  EXPECT_EQ(run_prepare(o).num_samples, 2);
  EXPECT_EQ(fs::last_write_time(out_ / "dataset.json"), before);
  EXPECT_FALSE(fs::exists(out_ / "work"));
  auto other = o;
  other.sequence_length = 3;
  expect_contains(refusal(other), {"other inputs or options", "sequence length: 4 there, 3 now"});
  other = o;
  other.inputs = {folder_.write("b.txt", "abcdefgh")};
  expect_contains(refusal(other), {"input:"});
}

TEST_F(Prepare, NamesFileAndLineOfTextThatIsNotUtf8) {
  expect_contains(failure(options({folder_.write("a.txt", "one\ntwo\nth\xFFree\n")})), {"a.txt:3", "0xFF", "byte 3"});
  expect_contains(failure(options({folder_.write("a.txt", "one\ntwo\nth\xFFree\n")})), {"a.txt:3"});  // again, going on where it stopped
  start_again();
  expect_contains(failure(options({folder_.write("a.jsonl", "{\"text\": \"ok\"}\n{\"text\": \"b\xC3\"}\n")})), {"a.jsonl:2", "not UTF-8"});
  start_again();
  auto o = options({folder_.write("b.txt",
                                  "one\n\n\ntwo\nthr\xE9"
                                  "e\n")});
  o.separator = DocumentSeparator::kBlankLine;
  expect_contains(failure(o), {"b.txt:5", "0xE9"});
}

TEST_F(Prepare, NamesFileAndLineOfABrokenLineAmongAHundredThousand) {
  std::string lines;
  for (int i = 1; i <= 100000; ++i) lines += i == 54321 ? "{\"text\": \"cut o\n" : "{\"text\": \"line\"}\n";
  lines += "also broken\n";
  for (const std::string& path : {folder_.write("a.jsonl", lines), folder_.write("b.jsonl.gz", gzip(lines))}) {
    auto o = options({path});
    o.num_workers = 4;
    expect_contains(failure(o), {path + ":54321:", "broken JSON"});
    start_again();
  }
}

TEST_F(Prepare, NamesLinesOfTheWrongForm) {
  const auto line = [&](const std::string& text) {
    start_again();
    return failure(options({folder_.write("a.jsonl", "{\"text\": \"fine\"}\n" + text + "\n")}));
  };
  expect_contains(line("[1]"), {"a.jsonl:2", "object"});
  expect_contains(line("{\"body\": \"x\"}"), {"a.jsonl:2", "\"text\"", "--text-field"});
  expect_contains(line("{\"text\": 5}"), {"a.jsonl:2", "must be a string"});
  expect_contains(line("{\"tokens\": \"x\"}"), {"a.jsonl:2", "array"});
  expect_contains(line("{\"text\": \"x\"} trailing"), {"a.jsonl:2", "broken JSON"});
  expect_contains(line("{\"tokens\": [1, 2, 257]}"), {"a.jsonl:2", "257", "not below the vocabulary's 257"});
  expect_contains(line("{\"tokens\": [1, -2]}"), {"a.jsonl:2", "-2"});
  expect_contains(line("{\"tokens\": [1, 99999999999]}"), {"a.jsonl:2", "99999999999"});
  start_again();
  expect_contains(failure(ids_options({folder_.write("b.jsonl", "{\"text\": \"x\"}\n")})), {"b.jsonl:1", "tokens"});
  start_again();
  expect_contains(failure(ids_options({folder_.write("b.txt", "x\n")})), {"b.txt:1", "none"});
}

TEST_F(Prepare, NamesDamagedCompressedFiles) {
  std::string text;
  for (int i = 0; i < 3000; ++i) text += fmt::format("{{\"text\": \"{}\"}}\n", hex64(xxh64(std::to_string(i))));
  const auto input = [&](const std::string& name, const std::string& bytes) {
    start_again();
    return failure(options({folder_.write(name, bytes)}));
  };
  expect_contains(input("a.jsonl.gz", gzip(text).substr(0, 5000)), {"a.jsonl.gz", "cut off"});
  expect_contains(input("a.jsonl.zst", zstd(text).substr(0, 5000)), {"a.jsonl.zst", "cut off"});
  expect_contains(input("a.jsonl.gz", "plain text"), {"a.jsonl.gz", "not gzip"});
  expect_contains(input("a.jsonl.zst", "plain text"), {"a.jsonl.zst", "not zstd"});
  expect_contains(input("a.jsonl.gz", ""), {"a.jsonl.gz", "cut off"});
}

TEST_F(Prepare, NamesDamagedArrays) {
  const auto input = [&](const std::string& name, const std::string& bytes, const std::string& bin_dtype = "") {
    start_again();
    auto o = ids_options({folder_.write(name, bytes)});
    o.bin_dtype = bin_dtype;
    return failure(o);
  };
  const std::string data = raw<std::uint16_t>({1, 2, 3, 4, 5, 6});
  expect_contains(input("a.npy", "garbage that is long enough"), {"a.npy", "not a .npy"});
  expect_contains(input("a.npy", npy("<u2", {6}, data).substr(0, 40)), {"a.npy", "ends inside its header"});
  expect_contains(input("a.npy", npy("<u2", {7}, data)), {"a.npy", "7 elements", "12 bytes"});
  expect_contains(input("a.npy", npy("<u2", {2, 3}, data)), {"a.npy", "2 dimensions"});
  expect_contains(input("a.npy", npy("<f4", {3}, data)), {"a.npy", "<f4"});
  expect_contains(input("a.npy", npy(">u2", {6}, data)), {"a.npy", ">u2"});
  expect_contains(input("a.npy", npy("<i4", {1}, raw<std::int32_t>({-7}))), {"a.npy", "element 0", "-7"});
  expect_contains(input("a.bin", "abc", "uint16"), {"a.bin", "3 bytes"});
  start_again();
  auto o = options({folder_.write("b.npy", npy("<u2", {6}, raw<std::uint16_t>({1, 2, 3, 257, 5, 6})))});
  expect_contains(failure(o), {"b.npy", "element 3", "257"});
}

TEST_F(Prepare, RefusesWhatCannotBe) {
  const std::string text = folder_.write("a.txt", "abcdefgh");
  auto o = options({text});
  o.sequence_length = 0;
  o.num_workers = 0;
  o.vocab_size = 5;
  expect_contains(refusal(o), {"--sequence-length", "--workers", "--vocab-size"});
  o = options({folder_.write("a.bin", "ab")});
  expect_contains(refusal(o), {"a.bin", "--bin-dtype"});
  o = options({text});
  o.end_of_document = "x";
  expect_contains(refusal(o), {"--end-of-document", "256"});
  expect_contains(failure(options({folder_.path() / "nope.txt"})), {"nope.txt", "no such file"});
  expect_contains(failure(options({folder_.path() / "*.nope"})), {"matches no file"});
  expect_contains(failure(options({folder_.write("a.pdf", "x")})), {"a.pdf", "unknown kind"});
  fs::create_directories(folder_.path() / "empty");
  expect_contains(failure(options({folder_.path() / "empty"})), {"no input"});
}

TEST_F(Prepare, AsksForAnEndOfDocumentWhereTheTokenizerHasNone) {
  nlohmann::json file = small_tokenizer();
  file["added_tokens"][0]["content"] = "<eos>";
  auto o = options({folder_.write("a.txt", "abcdefgh")});
  o.tokenizer = folder_.write("t.json", file.dump());
  expect_contains(failure(o), {"t.json", "<|endoftext|>", "--end-of-document"});
  o.end_of_document = "<nope>";
  expect_contains(failure(o), {"<nope>", "--end-of-document"});
  o.end_of_document = "<eos>";
  EXPECT_EQ(run_prepare(o).end_of_document, 256);
}

TEST_F(Prepare, RefusesAnEmptyCorpus) {
  expect_contains(failure(options({folder_.write("a.txt", "")})), {"empty"});
  start_again();
  expect_contains(failure(options({folder_.write("a.jsonl", "")})), {"empty"});
  start_again();
  expect_contains(failure(options({folder_.write("a.txt", "abc")})), {"5 ids", "--sequence-length"});
}

TEST_F(Prepare, ChecksTheEndOfDocumentOfGivenIds) {
  auto o = ids_options({folder_.write("a.jsonl", "{\"tokens\": [0, 1, 2, 3, 4]}")});
  o.end_of_document = "x";
  expect_contains(refusal(o), {"must be an id"});
  o.end_of_document = "5";
  expect_contains(failure(o), {"5", "largest id 4", "--vocab-size"});
  start_again();
  o.vocab_size = 6;
  EXPECT_EQ(run_prepare(o).end_of_document, 5);
  start_again();
  o.vocab_size = 4;
  o.end_of_document = "";
  expect_contains(failure(o), {"a.jsonl:1", "id 4", "vocabulary's 4"});
}

TEST(CorpusSamples, ReadASparseFileOfSixGigabytes) {
  const TemporaryFolder folder;
  const std::string path = folder.write("big.bin", "");
  constexpr Index kIds = 3'000'000'001, kS = 1'000'000;
  fs::resize_file(path, kIds * 2);
  {
    std::FILE* file = std::fopen(path.c_str(), "r+b");
    for (const Index at : {kIds - 1, kIds - 1 - kS, Index{1} << 31}) {
      const auto id = static_cast<std::uint16_t>(at % 65521);
      fseeko(file, at * 2, SEEK_SET);
      ASSERT_EQ(std::fwrite(&id, 2, 1, file), 1U);
    }
    std::fclose(file);
  }
  const std::vector<InputFile> files{{.path = path, .kind = InputKind::kRaw, .bytes = kIds * 2}};
  const CorpusSamples samples(files, plan_parts(files, 1 << 20), {{.num_tokens = kIds}}, folder.path(), TokenType::kU16, TokenType::kU16, kS);
  ASSERT_EQ(samples.size(), 3000);
  EXPECT_EQ(samples.num_dropped_tokens(), 0);
  Ids ids(kS + 1);
  samples.read(2999, ids);
  EXPECT_EQ(ids.front(), (kIds - 1 - kS) % 65521);
  EXPECT_EQ(ids.back(), (kIds - 1) % 65521);
  constexpr Index kPlace = Index{1} << 31;
  samples.read(kPlace / kS, ids);
  EXPECT_EQ(ids[static_cast<std::size_t>(kPlace % kS)], kPlace % 65521);
}

}  // namespace
}  // namespace optimus
