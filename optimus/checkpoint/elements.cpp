#include "optimus/checkpoint/elements.hpp"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "optimus/base/counted.hpp"

namespace optimus {
namespace {

void check_counts(ConstView input, ConstView out) {
  if (input.count() != out.count()) throw ShapeError(fmt::format("[checkpoint] {} converted into {}", counted(input.count(), "element"), out.count()));
}

}  // namespace

float half_to_float(std::uint16_t bits) {
  const auto sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const auto exponent = static_cast<std::uint32_t>(bits >> 10) & 0x1fU;
  const auto fraction = static_cast<std::uint32_t>(bits) & 0x3ffU;
  if (exponent == 0) {  // zero and subnormals: fraction * 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  if (exponent == 0x1fU) return std::bit_cast<float>(sign | 0x7f800000U | (fraction << 13));
  return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (fraction << 13));
}

bool is_convertible(DType from, DType to) { return from == to || (to == DType::kF32 && (from == DType::kBF16 || from == DType::kF16)); }

void convert_elements(ConstView input, View out) {
  check_counts(input, out);
  if (!is_convertible(input.dtype(), out.dtype()))
    throw UnsupportedError(fmt::format("[checkpoint] {} does not convert to {} without loss", dtype_name(input.dtype()), dtype_name(out.dtype())));
  const Index count = out.count();
  if (input.dtype() == out.dtype()) {
    if (count > 0) std::memcpy(out.data(), input.data(), static_cast<std::size_t>(out.bytes()));
    return;
  }
  float* to = out.as<float>();
  const std::byte* from = input.data();
  const auto bits_at = [from](Index i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from + 2 * i, 2);
    return bits;
  };
  if (input.dtype() == DType::kF16) {
    for (Index i = 0; i < count; ++i) to[i] = half_to_float(bits_at(i));
  } else {
    for (Index i = 0; i < count; ++i) to[i] = std::bit_cast<float>(static_cast<std::uint32_t>(bits_at(i)) << 16);
  }
}

void round_elements(ConstView input, View out) {
  check_counts(input, out);
  if (out.dtype() == DType::kF32) {
    convert_elements(input, out);
    return;
  }
  if (input.dtype() != DType::kF32 || out.dtype() != DType::kBF16) {
    throw UnsupportedError(fmt::format("[checkpoint] {} is not rounded to {}", dtype_name(input.dtype()), dtype_name(out.dtype())));
  }
  const float* from = input.as<float>();
  auto* to = out.as<BFloat16>();
  for (Index i = 0; i < out.count(); ++i) to[i] = BFloat16(from[i]);
}

}  // namespace optimus
