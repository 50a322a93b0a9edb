#include "optimus/eval/requests.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>

#include "optimus/base/file.hpp"

namespace optimus {
namespace {

LikelihoodRequest request(std::string context, std::string continuation) {
  return {.task_name = "t", .context = std::move(context), .continuation = std::move(continuation), .origin = "requests.jsonl:7"};
}

std::vector<std::int32_t> bytes_of(std::string_view text) { return {text.begin(), text.end()}; }

class Requests : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  std::unique_ptr<Tokenizer> tokenizer_ = make_tokenizer("bytes");
  fs::path folder_ = fs::temp_directory_path() / ("optimus-requests-" + std::to_string(::getpid()));
};

TEST_F(Requests, WhiteSpaceMovesFromContextToContinuation) {
  const EncodedRequest encoded = encode_request(*tokenizer_, request("ab \t", "c"), 100);
  EXPECT_EQ(encoded.ids, bytes_of("ab \tc"));
  EXPECT_EQ(encoded.continuation_tokens, 3);
}

TEST_F(Requests, WiderWhiteSpaceMovesToo) {
  const EncodedRequest encoded = encode_request(*tokenizer_, request("a\u3000\u00a0", "c"), 100);
  EXPECT_EQ(encoded.continuation_tokens, 3 + 2 + 1);
}

TEST_F(Requests, AnEmptyContextIsTheEndOfADocument) {
  const EncodedRequest encoded = encode_request(*tokenizer_, request("", "xy"), 100);
  EXPECT_EQ(encoded.ids, (std::vector<std::int32_t>{256, 'x', 'y'}));
  EXPECT_EQ(encoded.continuation_tokens, 2);
}

TEST_F(Requests, LongContextsAreCutOnTheLeft) {
  const EncodedRequest encoded = encode_request(*tokenizer_, request("abcdef", "gh"), 4);
  EXPECT_EQ(encoded.ids, bytes_of("defgh"));
  EXPECT_EQ(encoded.continuation_tokens, 2);
}

TEST_F(Requests, WhatCannotBeScoredNamesItsLine) {
  const auto message = [&](const LikelihoodRequest& bad) {
    try {
      (void)encode_request(*tokenizer_, bad, 3);
    } catch (const DataError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  for (const LikelihoodRequest& bad : {request(" \n", "a"), request("a", ""), request("", ""), request("a", "bcde")}) {
    EXPECT_NE(message(bad).find("requests.jsonl:7"), std::string::npos) << message(bad);
  }
}

TEST_F(Requests, ABrokenLineIsNamed) {
  const fs::path path = folder_ / "r.jsonl";
  const std::string good =
      R"({"request_type": "loglikelihood", "request": {"context": "a", "continuation": "b"}, "idx": 0, "task_name": "t", "doc_id": 0, "label": 0})";
  write_file_atomically(path, good + "\n" + good.substr(0, 40) + "\n");
  try {
    (void)read_requests(path);
    FAIL() << "a torn line was accepted";
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("r.jsonl:2"), std::string::npos) << error.what();
  }
}

TEST_F(Requests, AFileWithoutRequestsIsAnError) {
  write_file_atomically(folder_ / "empty.jsonl", "");
  EXPECT_THROW((void)read_requests(folder_ / "empty.jsonl"), DataError);
}

}  // namespace
}  // namespace optimus
