#pragma once
// A pseudo-random order of n things without a table of n entries.

#include <array>
#include <cstdint>
#include <string_view>

#include "optimus/base/index.hpp"

namespace optimus {

/// A permutation of 0 … n-1, chosen by (seed, purpose, name).
///
/// A Feistel network over the smallest even number of bits that holds n, walked along its cycle until it comes back below n.
/// Time: constant (under four walks on average, more only for n below 64). Memory: constant.
/// Source:   Black & Rogaway 2002, "Ciphers with arbitrary finite domains", the cycle-walking cipher.
class Permutation {
 public:
  Permutation(Index n, std::uint64_t seed, std::string_view purpose, std::string_view name = {});
  /// Place of `i` (0 <= i < n).  Errors: InternalError if i is out of range.
  [[nodiscard]] Index operator()(Index i) const;

 private:
  static constexpr int kRounds = 8;
  Index n_;
  int half_bits_;
  std::array<std::uint64_t, kRounds> keys_{};
};

}  // namespace optimus
