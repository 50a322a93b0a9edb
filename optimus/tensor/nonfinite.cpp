#include "optimus/tensor/nonfinite.hpp"

#include <cstring>

#include "optimus/base/bf16.hpp"

namespace optimus {
namespace {

/// The bits of one element: all exponent bits set means NaN or Inf, and NaN has some of the mantissa beside them.
template <class BitsOfOne, BitsOfOne kExponentBits> struct Format {
  using Bits = BitsOfOne;
  static constexpr Bits kExponent = kExponentBits, kMagnitude = static_cast<Bits>(static_cast<Bits>(~Bits{0}) >> 1);
};

/// What `use` returns for the format of `dtype`, or `otherwise` for a type without NaN.
template <class Result, class Use> Result for_format(DType dtype, Result otherwise, Use use) {
  switch (dtype) {
    case DType::kF64: return use(Format<std::uint64_t, 0x7ff0000000000000U>());
    case DType::kF32: return use(Format<std::uint32_t, 0x7f800000U>());
    case DType::kBF16: return use(Format<std::uint16_t, 0x7f80U>());
    case DType::kF16: return use(Format<std::uint16_t, 0x7c00U>());
    default: return otherwise;
  }
}

/// Views of bytes from a file need not be aligned.
template <class Bits> [[gnu::always_inline]] inline Bits bits_at(const std::byte* data, std::size_t i) {
  Bits bits = 0;
  std::memcpy(&bits, data + i * sizeof(Bits), sizeof(Bits));
  return bits;
}

/// The largest magnitude, as an integer: one branch-free pass that the compiler turns into vector instructions.
template <class F> [[gnu::always_inline]] inline typename F::Bits find_largest(const std::byte* data, std::size_t count) {
  typename F::Bits largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const auto magnitude = static_cast<typename F::Bits>(bits_at<typename F::Bits>(data, i) & F::kMagnitude);
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

#if defined(__x86_64__)
template <class F> [[gnu::target("avx2")]] typename F::Bits find_largest_avx2(const std::byte* data, std::size_t count) { return find_largest<F>(data, count); }
bool has_avx2() { return __builtin_cpu_supports("avx2") != 0; }
#else
template <class F> typename F::Bits find_largest_avx2(const std::byte* data, std::size_t count) { return find_largest<F>(data, count); }
bool has_avx2() { return false; }
#endif

}  // namespace

NonFiniteKind find_nonfinite(ConstView values) {
  return for_format(values.dtype(), NonFiniteKind::kNone, [&]<class F>(F) {
    const auto count = static_cast<std::size_t>(values.count());
    const auto largest = has_avx2() ? find_largest_avx2<F>(values.data(), count) : find_largest<F>(values.data(), count);
    if (largest < F::kExponent) return NonFiniteKind::kNone;
    return largest > F::kExponent ? NonFiniteKind::kNan : NonFiniteKind::kInf;
  });
}

std::optional<Index> find_first_nonfinite(ConstView values) {
  if (find_nonfinite(values) == NonFiniteKind::kNone) return std::nullopt;
  return for_format(values.dtype(), std::optional<Index>(), [&]<class F>(F) {
    std::size_t i = 0;
    while ((bits_at<typename F::Bits>(values.data(), i) & F::kExponent) != F::kExponent) ++i;
    return std::optional(static_cast<Index>(i));
  });
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
