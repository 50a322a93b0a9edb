#include "optimus/data/dataset.hpp"

#include "optimus/base/error.hpp"
#include "optimus/base/file.hpp"
#include "optimus/data/npy.hpp"
#include "tests/unit/data/data_testing.hpp"

namespace optimus {
namespace {

using namespace testing_data;
using nlohmann::json;

/// A prepared folder of 10 samples in 4 shards, to be damaged.
class Datasets : public testing::Test {
 protected:
  Datasets() {
    PrepareOptions o;
    o.out = out_;
    json line;
    for (int i = 0; i < 51; ++i) line["tokens"].push_back(i);
    o.inputs = {folder_.write("a.jsonl", line.dump())};
    o.tokenizer = "none";
    o.sequence_length = 5;
    o.shard_tokens = 15;
    run_prepare(o);
  }
  json read_json() { return json::parse(read_file(out_ / "dataset.json")); }
  void write_json(const json& value) { folder_.write("out/dataset.json", value.dump()); }
  std::string failure() {
    return message_of<DataError>([&] { Dataset(out_).verify(); });
  }
  TemporaryFolder folder_;
  fs::path out_ = folder_.path() / "out";
  std::string shard_ = (out_ / "shards" / "shard-00001.npy").string();
};

TEST_F(Datasets, SayWhatTheyHold) {
  const Dataset dataset(out_);
  EXPECT_EQ(dataset.info().num_samples, 10);
  EXPECT_EQ(dataset.info().shards.size(), 4U);
  EXPECT_EQ(dataset.info().shards.back().num_samples, 1);
  EXPECT_EQ(dataset.info().token_bytes, 2);
  EXPECT_EQ(dataset.info().vocab_size, 51);
  dataset.verify();
}

TEST_F(Datasets, AreNamedWhereTheyAreMissingOrForeign) {
  expect_contains(message_of<DataError>([] { Dataset dataset("/nowhere"); }), {"/nowhere", "no such folder"});
  fs::remove(out_ / "dataset.json");
  expect_contains(failure(), {out_.string(), "no dataset.json", "optimus prepare"});
  for (const char* text : {"", "{\"version\": 1", "[]",
                           "\x7F"
                           "ELF"}) {
    folder_.write("out/dataset.json", text);
    expect_contains(failure(), {"dataset.json", "not a JSON object"});
  }
}

TEST_F(Datasets, NameTheKeyThatIsWrong) {
  const json good = read_json();
  const auto with = [&](const char* key, const json& value) {
    json changed = good;
    changed[key] = value;
    write_json(changed);
    return failure();
  };
  expect_contains(with("version", 2), {"version 2"});
  expect_contains(with("vocab_size", "x"), {"\"vocab_size\"", "whole number"});
  expect_contains(with("samples", 11), {"11", "10"});
  expect_contains(with("token_type", "float"), {"float"});
  expect_contains(with("sequence_length", 0), {"0", "positive"});
  expect_contains(with("end_of_document", 51), {"51", "vocabulary"});
  expect_contains(with("shards", 3), {"shards"});
  json without = good;
  without.erase("tokens");
  write_json(without);
  expect_contains(failure(), {"no \"tokens\""});
}

TEST_F(Datasets, NameTheShardThatIsDamaged) {
  const std::string good = read_file(shard_);
  folder_.write("out/shards/shard-00001.npy", good.substr(0, good.size() - 2));
  expect_contains(failure(), {"shard-00001.npy", "cut off"});
  std::string changed = good;
  changed[good.size() - 2] ^= 1;
  folder_.write("out/shards/shard-00001.npy", changed);
  expect_contains(failure(), {"shard-00001.npy", "checksum"});
  changed = good;
  changed[0] = 'x';
  folder_.write("out/shards/shard-00001.npy", changed);
  expect_contains(failure(), {"shard-00001.npy", "not a .npy"});
  changed = npy("<u2", {6, 3}, good.substr(good.size() - 36));
  folder_.write("out/shards/shard-00001.npy", changed);
  expect_contains(failure(), {"shard-00001.npy", "[6, 3]", "[3, 6]"});
  fs::remove(shard_);
  expect_contains(failure(), {"shard-00001.npy", "missing"});
}

TEST_F(Datasets, NameTheIdThatIsNotInTheVocabulary) {
  json changed = read_json();
  changed["vocab_size"] = 50;
  write_json(changed);
  const Dataset dataset(out_);
  Ids ids(6);
  int failures = 0;
  for (Index i = 0; i < 10; ++i) {
    try {
      dataset.read_sample(i, ids);
    } catch (const DataError& error) {
      ++failures;
      expect_contains(error.what(), {"id 50", "place 5", "vocabulary's 50", "shard-0000"});
    }
  }
  EXPECT_EQ(failures, 1);
}

TEST(Labels, DoNotCountBehindTheEndOfADocument) {
  std::vector<std::uint8_t> is_valid(4);
  mark_valid_labels(Ids{9, 1, 9, 9, 9}, 9, is_valid);
  EXPECT_EQ(is_valid, (std::vector<std::uint8_t>{0, 1, 0, 0})) << "the last id is a label only";
  mark_valid_labels(Ids{9, 1, 9, 9, 9}, -1, is_valid);
  EXPECT_EQ(is_valid, (std::vector<std::uint8_t>{1, 1, 1, 1}));
}

TEST(Npy, WritesHeadersThatItReads) {
  for (const std::vector<Index>& shape : {std::vector<Index>{}, {0}, {5}, {3, 4}, {1, 2, 3}, {123456789012, 7}}) {
    const std::string header = make_npy_header("<u4", shape);
    EXPECT_EQ(header.size() % 64, 0U);
    EXPECT_EQ(header.back(), '\n');
    const NpyHeader read = parse_npy_header(std::as_bytes(std::span(header)), "x.npy");
    EXPECT_EQ(read.shape, shape);
    EXPECT_EQ(read.dtype, "<u4");
    EXPECT_EQ(read.data_offset, static_cast<Index>(header.size()));
    EXPECT_FALSE(read.is_fortran);
  }
}

}  // namespace
}  // namespace optimus
