#pragma once
// Tensors with their own memory, for tests of the cpu backend.

#include <cstring>
#include <vector>

#include "optimus/base/bf16.hpp"
#include "optimus/tensor/arena.hpp"

namespace optimus::test {

/// A tensor of numbers in [-1, 1) that look random and are the same each time.
class Numbers {
 public:
  Numbers(DType dtype, Shape shape, std::uint32_t seed = 1)
      : buffer_(std::max<Index>(64, shape.count() * dtype_bytes(dtype))), view_(buffer_.data(), dtype, shape) {
    for (Index i = 0; i < shape.count(); ++i) {
      seed = seed * 1664525U + 1013904223U;
      set(i, static_cast<float>(seed >> 8) / 8388608.0F - 1.0F);
    }
  }
  operator View() const { return view_; }       // NOLINT: implicit on purpose
  operator ConstView() const { return view_; }  // NOLINT
  void set(Index i, float value) const {
    if (view_.dtype() == DType::kF32) view_.as<float>()[i] = value;
    else view_.as<BFloat16>()[i] = BFloat16(value);
  }
  [[nodiscard]] float operator[](Index i) const { return view_.dtype() == DType::kF32 ? view_.as<float>()[i] : static_cast<float>(view_.as<BFloat16>()[i]); }
  [[nodiscard]] bool has_same_bits(const Numbers& other) const {
    return std::memcmp(view_.data(), other.view_.data(), static_cast<std::size_t>(view_.bytes())) == 0;
  }

 private:
  Buffer buffer_;
  View view_;
};

/// Integers as a tensor.
template <class T> class Integers {
 public:
  explicit Integers(std::vector<T> values) : values_(std::move(values)) {}
  operator View() const { return {reinterpret_cast<std::byte*>(values_.data()), dtype_of<T>, {static_cast<Index>(values_.size())}}; }  // NOLINT
  operator ConstView() const { return static_cast<View>(*this); }                                                                      // NOLINT

 private:
  mutable std::vector<T> values_;
};

}  // namespace optimus::test
