#pragma once
// The checks every operation makes before it calls its kernel. They look at shapes and element types only, never at elements:
// the same calls run over a measuring arena, whose memory does not exist.

#include <string_view>

#include "optimus/backend/backend.hpp"

namespace optimus::ops {

/// The arguments of one call of one operation. Every message names the operation, the argument, what it is and what it should be.
class Arguments {
 public:
  Arguments(const Backend& backend, std::string_view operation) : backend_(backend), operation_(operation) {}

  /// Errors: ShapeError if the tensor is missing or has another number of dimensions.
  void expect_ndim(std::string_view name, ConstView view, int ndim) const;
  /// Errors: ShapeError if the tensor is missing or has another shape.
  void expect_shape(std::string_view name, ConstView view, const Shape& wanted) const;
  /// At least `rows` rows, the other dimensions those of `like`: slot-indexed views with capacity for more rows than there are slots.
  void expect_capacity(std::string_view name, ConstView view, Index rows, const Shape& like) const;
  /// Errors: ShapeError if the tensor is missing or its number of elements differs; any shape will do.
  void expect_count(std::string_view name, ConstView view, Index count) const;
  /// Errors: ShapeError with `rule` unless it holds.
  void expect(bool holds, std::string_view rule, std::string_view name, ConstView view) const;

  /// Errors: UnsupportedError unless the elements are `wanted`.
  void expect_dtype(std::string_view name, ConstView view, DType wanted) const;
  /// Errors: UnsupportedError unless the elements are f64, f32 or bf16 and the backend computes on them.
  void expect_compute(std::string_view name, ConstView view) const;
  /// The type of `reference`.
  void expect_same(std::string_view name, ConstView view, ConstView reference) const { expect_dtype(name, view, reference.dtype()); }
  /// The type of `reference`, or f32.
  void expect_same_or_f32(std::string_view name, ConstView view, ConstView reference) const;
  /// f32, and f64 where `reference` is f64: statistics and sums.
  void expect_wide(std::string_view name, ConstView view, ConstView reference) const;

 private:
  [[noreturn]] void fail_shape(std::string_view name, ConstView view, std::string_view wanted) const;
  const Backend& backend_;
  std::string_view operation_;
};

}  // namespace optimus::ops
