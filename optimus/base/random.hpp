#pragma once
// Counter-based random numbers: every value is a pure function of a key and a position, so nothing depends on ranks, threads or order.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "optimus/base/index.hpp"

namespace optimus {

/// One block of Philox4x32-10.   Source: Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3", and its known-answer vectors.
[[nodiscard]] std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

/// An endless, randomly accessible sequence of random numbers.
///
/// The key is a hash of (seed, purpose, name): two streams that differ in any of them are independent.
/// value(i) of a stream is always the same, whoever asks and in whatever order.
/// Positions are >= 0. A stream serves one kind of number: bits, uniform, normal and below at the same position come from the same bits.
class RandomStream {
 public:
  /// `purpose` separates uses ("init", "shuffle", "sample"); `name` separates things of one use (a parameter's name, an epoch).
  RandomStream(std::uint64_t seed, std::string_view purpose, std::string_view name = {});

  [[nodiscard]] std::uint64_t bits(Index i) const;  ///< 64 uniform bits
  [[nodiscard]] double uniform(Index i) const;      ///< [0, 1), 53 bits
  [[nodiscard]] float normal(Index i) const;        ///< N(0, 1) by Box-Muller in double, rounded to float
  /// values[j] = normal(begin + j), at half the cost.
  void fill_normal(Index begin, std::span<float> values) const;
  [[nodiscard]] std::uint64_t below(Index i, std::uint64_t n) const;  ///< uniform in [0, n), n > 0, without bias to within 2^-64 (128-bit multiply)

 private:
  [[nodiscard]] std::array<std::uint64_t, 2> pair(std::uint64_t block) const;
  std::array<std::uint32_t, 2> key_{};
};

}  // namespace optimus
