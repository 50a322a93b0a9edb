#pragma once
// Tensors in and out of double: every kernel of the reference loads its inputs, computes on doubles, and rounds once when it stores.
// Loading copies, so an output may share memory with an input in any way.

#include <span>
#include <vector>

#include "optimus/backend/gemm.hpp"

namespace optimus::ref {

/// The elements of an f64, f32 or bf16 tensor, exactly.
[[nodiscard]] std::vector<double> load(ConstView view);
/// view = values, each rounded to nearest even.
void store(View view, std::span<const double> values);
/// view = values, or view += values with one rounding.
void store(View view, std::span<const double> values, Write write);

/// Number of slots, R, of a list of segments.
[[nodiscard]] inline Index last(ConstView segments_e) { return segments_e.as<std::int64_t>()[segments_e.count() - 1]; }

/// values[i * width + j]
struct Matrix {
  std::vector<double> values;
  Index width = 0;
  /// The elements of `view`, whose last dimension is the width.
  explicit Matrix(ConstView view) : values(load(view)), width(view.size(view.shape().ndim() - 1)) {}
  /// Zeros.
  Matrix(Index rows, Index columns) : values(static_cast<std::size_t>(rows * columns)), width(columns) {}
  [[nodiscard]] double& operator()(Index i, Index j) { return values[static_cast<std::size_t>(i * width + j)]; }
  [[nodiscard]] double operator()(Index i, Index j) const { return values[static_cast<std::size_t>(i * width + j)]; }
};

}  // namespace optimus::ref
