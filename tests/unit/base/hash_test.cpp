#include "optimus/base/hash.hpp"

#include <gtest/gtest.h>

#include <string>

namespace optimus {
namespace {

// Answers of the xxHash specification for seed 0.
TEST(Xxh64, GivesThePublishedAnswers) {
  EXPECT_EQ(xxh64(std::string_view()), 0xef46db3751d8e999U);
  EXPECT_EQ(xxh64("a"), 0xd24ec4f1a98c6e5bU);
  EXPECT_EQ(xxh64("abc"), 0x44bc2cf5ad770999U);
}

TEST(Xxh64, IsTheSameInPieces) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += static_cast<char>(i * 7);
  const auto bytes = std::as_bytes(std::span(text));
  for (const std::size_t piece : {1U, 31U, 32U, 33U, 1000U}) {
    Xxh64 hash;
    hash.update({});
    for (std::size_t at = 0; at < bytes.size(); at += piece) hash.update(bytes.subspan(at, std::min(piece, bytes.size() - at)));
    EXPECT_EQ(hash.digest(), xxh64(text)) << piece;
    EXPECT_EQ(hash.digest(), xxh64(text)) << "digest changed the state";
  }
  EXPECT_EQ(Xxh64().digest(), xxh64(std::string_view()));
}

TEST(Hex64, HasSixteenDigits) {
  EXPECT_EQ(hex64(0), "0000000000000000");
  EXPECT_EQ(hex64(0xef46db3751d8e999U), "ef46db3751d8e999");
}

}  // namespace
}  // namespace optimus
