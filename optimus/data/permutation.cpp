#include "optimus/data/permutation.hpp"

#include <algorithm>
#include <bit>

#include "optimus/base/check.hpp"
#include "optimus/base/random.hpp"

namespace optimus {
namespace {

// Fewer bits would leave too few different permutations.
constexpr int kMinHalfBits = 4;

int half_bits_for(Index n) {
  const auto bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(std::max<Index>(n, 1) - 1)));
  return std::max(kMinHalfBits, (bits + 1) / 2);
}

/// A bijection that spreads every bit (splitmix64's finaliser, Steele, Lea, Flood 2014).
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace

Permutation::Permutation(Index n, std::uint64_t seed, std::string_view purpose, std::string_view name) : n_(n), half_bits_(half_bits_for(n)) {
  const RandomStream stream(seed, purpose, name);
  for (int round = 0; round < kRounds; ++round) keys_[static_cast<std::size_t>(round)] = stream.bits(round);
}

Index Permutation::operator()(Index i) const {
  OPTIMUS_CHECK(i >= 0 && i < n_, "place outside the permutation");
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  auto value = static_cast<std::uint64_t>(i);
  do {
    std::uint64_t left = value >> half_bits_, right = value & mask;
    for (const std::uint64_t key : keys_) {
      const std::uint64_t next = left ^ (mix(right + key) & mask);
      left = right;
      right = next;
    }
    value = (left << half_bits_) | right;
  } while (value >= static_cast<std::uint64_t>(n_));
  return static_cast<Index>(value);
}

}  // namespace optimus
