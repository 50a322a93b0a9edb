#include "optimus/comm/watched/nonfinite.hpp"

#include <cstring>

#include "optimus/base/bf16.hpp"

namespace optimus {
namespace {

/// The bits of one element: all exponent bits set means NaN or Inf, and NaN has some of the mantissa beside them.
template <class Bits> struct Format;
template <> struct Format<std::uint16_t> {
  static constexpr std::uint16_t kExponent = 0x7f80U, kMagnitude = 0x7fffU;
};
template <> struct Format<std::uint32_t> {
  static constexpr std::uint32_t kExponent = 0x7f800000U, kMagnitude = 0x7fffffffU;
};
template <> struct Format<std::uint64_t> {
  static constexpr std::uint64_t kExponent = 0x7ff0000000000000U, kMagnitude = 0x7fffffffffffffffU;
};

/// The largest magnitude, as an integer: one branch-free pass that the compiler turns into vector instructions.
template <class Bits> [[gnu::always_inline]] inline Bits find_largest(const Bits* bits, std::size_t count) {
  Bits largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto magnitude = static_cast<Bits>(bits[i] & Format<Bits>::kMagnitude);
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

#if defined(__x86_64__)
template <class Bits> [[gnu::target("avx2")]] Bits find_largest_avx2(const Bits* bits, std::size_t count) { return find_largest(bits, count); }
bool has_avx2() { return __builtin_cpu_supports("avx2") != 0; }
#else
template <class Bits> Bits find_largest_avx2(const Bits* bits, std::size_t count) { return find_largest(bits, count); }
bool has_avx2() { return false; }
#endif

template <class Bits> NonFiniteKind find(ConstView values) {
  const auto* bits = reinterpret_cast<const Bits*>(values.data());
  const auto count = static_cast<std::size_t>(values.count());
  const Bits largest = has_avx2() ? find_largest_avx2(bits, count) : find_largest(bits, count);
  if (largest < Format<Bits>::kExponent) return NonFiniteKind::kNone;
  return largest > Format<Bits>::kExponent ? NonFiniteKind::kNan : NonFiniteKind::kInf;
}

}  // namespace

NonFiniteKind find_nonfinite(ConstView values) {
  if (values.count() == 0) return NonFiniteKind::kNone;
  switch (values.dtype()) {
    case DType::kF64: return find<std::uint64_t>(values);
    case DType::kF32: return find<std::uint32_t>(values);
    case DType::kBF16: return find<std::uint16_t>(values);
    default: return NonFiniteKind::kNone;
  }
}

void set_number(View values, Index index, double number) {
  const auto at = static_cast<std::size_t>(index);
  switch (values.dtype()) {
    case DType::kF64: values.as<double>()[at] = number; return;
    case DType::kF32: values.as<float>()[at] = static_cast<float>(number); return;
    case DType::kBF16: values.as<BFloat16>()[at] = BFloat16(static_cast<float>(number)); return;
    default: return;
  }
}

}  // namespace optimus
