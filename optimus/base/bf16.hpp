#pragma once
// bfloat16 as a storage type: the upper half of an IEEE float. Arithmetic happens in float.

#include <bit>
#include <cstdint>

namespace optimus {

/// Rounds to nearest, ties to even; NaN stays NaN (made quiet).
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  explicit BFloat16(float value) {
    const auto u = std::bit_cast<std::uint32_t>(value);
    const bool is_nan = (u & 0x7fffffffU) > 0x7f800000U;
    bits = is_nan ? static_cast<std::uint16_t>((u >> 16) | 0x40U) : static_cast<std::uint16_t>((u + 0x7fffU + ((u >> 16) & 1U)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};
static_assert(sizeof(BFloat16) == 2);

}  // namespace optimus
