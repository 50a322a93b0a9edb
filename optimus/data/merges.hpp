#pragma once
// Byte-pair merges: from the bytes of one word to token ids.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "optimus/base/index.hpp"

namespace optimus {

/// Two neighbouring tokens and the one that replaces them. The place in the list is the rank: lower ranks merge first.
struct Merge {
  std::int32_t left = 0, right = 0, result = 0;
};

/// How single bytes begin.
struct ByteTokens {
  std::array<std::int32_t, 256> id{};   ///< -1: no token stands for this byte
  std::optional<std::int32_t> unknown;  ///< for bytes without a token; absent: they are left out
  bool fuse_unknown = false;            ///< one unknown token for a run of such bytes' characters
};

/// The merge table. Immutable; may be used from many threads.
///
/// A word's bytes become tokens; then, as long as a pair of neighbours is in the table, the pair with the lowest rank (the leftmost of
/// equal ones) is replaced.   Source: Sennrich, Haddow, Birch 2016, arXiv:1508.07909.
class MergeTable {
 public:
  /// Of a pair that is listed twice the later rank counts.
  MergeTable(std::span<const Merge> merges, const ByteTokens& bytes);
  /// Appends the ids of `word` (well-formed UTF-8).  Time: n log n in its bytes.
  void encode(std::string_view word, std::vector<std::int32_t>& ids) const;

 private:
  struct Entry {
    std::uint64_t pair;
    std::uint32_t rank;
    std::int32_t result;
  };

  [[nodiscard]] const Entry* find(std::int32_t left, std::int32_t right) const;
  void first_tokens(std::string_view word, std::vector<std::int32_t>& ids) const;
  [[nodiscard]] std::size_t merge_short(std::int32_t* ids, std::size_t count) const;
  [[nodiscard]] std::size_t merge_long(std::int32_t* ids, std::size_t count) const;

  std::vector<Entry> table_;  // open addressing, a power of two of places
  int shift_ = 0;
  ByteTokens bytes_;
};

}  // namespace optimus
