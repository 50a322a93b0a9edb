#pragma once
// The element types of tensors and files.

#include <cstdint>
#include <string_view>

#include "optimus/base/bf16.hpp"
#include "optimus/base/index.hpp"

namespace optimus {

/// kF16 and kU8 … kI64 occur in files and index tensors only; kernels compute on kF32, kBF16 and (backend `ref`) kF64.
enum class DType : std::uint8_t { kF64, kF32, kBF16, kF16, kI64, kI32, kU32, kU16, kU8 };

[[nodiscard]] constexpr Index dtype_bytes(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64: return 8;
    case DType::kF32:
    case DType::kI32:
    case DType::kU32: return 4;
    case DType::kBF16:
    case DType::kF16:
    case DType::kU16: return 2;
    case DType::kU8: return 1;
  }
  return 0;
}

/// "f32", "bf16", …: as configuration, logs and messages spell it.
[[nodiscard]] constexpr std::string_view dtype_name(DType dtype) {
  switch (dtype) {
    case DType::kF64: return "f64";
    case DType::kF32: return "f32";
    case DType::kBF16: return "bf16";
    case DType::kF16: return "f16";
    case DType::kI64: return "i64";
    case DType::kI32: return "i32";
    case DType::kU32: return "u32";
    case DType::kU16: return "u16";
    case DType::kU8: return "u8";
  }
  return "?";
}

namespace dtype_detail {
template <class T> consteval DType none() {
  static_assert(sizeof(T) == 0, "no DType stores this type");
  return {};
}
}  // namespace dtype_detail

/// dtype_of<T>: the DType that stores T. Asking for a type that none stores does not compile.
template <class T> inline constexpr DType dtype_of = dtype_detail::none<T>();
template <> inline constexpr DType dtype_of<double> = DType::kF64;
template <> inline constexpr DType dtype_of<float> = DType::kF32;
template <> inline constexpr DType dtype_of<BFloat16> = DType::kBF16;
template <> inline constexpr DType dtype_of<std::int64_t> = DType::kI64;
template <> inline constexpr DType dtype_of<std::int32_t> = DType::kI32;
template <> inline constexpr DType dtype_of<std::uint32_t> = DType::kU32;
template <> inline constexpr DType dtype_of<std::uint16_t> = DType::kU16;
template <> inline constexpr DType dtype_of<std::uint8_t> = DType::kU8;

}  // namespace optimus
