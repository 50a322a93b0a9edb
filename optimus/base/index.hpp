#pragma once
// Sizes and counts, and arithmetic on them that fails instead of wrapping round.

#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "optimus/base/error.hpp"

namespace optimus {

/// Every size, count and offset. 64-bit, signed: differences and loops down to zero are safe.
using Index = std::int64_t;

/// a * b.  Errors: InternalError if the product does not fit.
[[nodiscard]] inline Index checked_mul(Index a, Index b) {
  Index result = 0;
  if (__builtin_mul_overflow(a, b, &result)) throw InternalError("[base] integer overflow in a product of sizes");
  return result;
}

/// a + b.  Errors: InternalError if the sum does not fit.
[[nodiscard]] inline Index checked_add(Index a, Index b) {
  Index result = 0;
  if (__builtin_add_overflow(a, b, &result)) throw InternalError("[base] integer overflow in a sum of sizes");
  return result;
}

/// `value` as To.  Errors: InternalError if To cannot hold it. For libraries that count in int.
template <std::integral To, std::integral From>
[[nodiscard]] To narrow(From value) {
  const auto result = static_cast<To>(value);
  if (static_cast<From>(result) != value || ((result < To{}) != (value < From{}))) throw InternalError("[base] integer does not fit the narrower type");
  return result;
}

/// ceil(a / b) for a >= 0, b > 0.
[[nodiscard]] constexpr Index ceil_div(Index a, Index b) { return a / b + (a % b != 0 ? 1 : 0); }

/// The smallest multiple of `multiple` that is not below `value` (>= 0).
[[nodiscard]] constexpr Index round_up(Index value, Index multiple) { return ceil_div(value, multiple) * multiple; }

}  // namespace optimus
