#pragma once
// The sizes of a tensor, outermost dimension first.

#include <array>
#include <initializer_list>
#include <string>

#include "optimus/base/index.hpp"

namespace optimus {

/// Up to five dimensions, each >= 0. A value; no allocation.
class Shape {
 public:
  static constexpr int kMaxDims = 5;
  Shape() = default;
  Shape(std::initializer_list<Index> dims);  ///< Errors: ShapeError for a negative size or more than kMaxDims
  [[nodiscard]] int ndim() const { return ndim_; }
  [[nodiscard]] Index operator[](int dim) const { return dims_[static_cast<std::size_t>(dim)]; }
  void set(int dim, Index size) { dims_[static_cast<std::size_t>(dim)] = size; }
  void push_back(Index size);
  /// Product of all sizes; 1 for a scalar.
  [[nodiscard]] Index count() const;
  /// Product of the sizes from `dim` on: elements in one step of the dimension before.
  [[nodiscard]] Index count_from(int dim) const;
  [[nodiscard]] bool operator==(const Shape& other) const;
  /// "[4, 256]"
  [[nodiscard]] std::string str() const;

 private:
  std::array<Index, kMaxDims> dims_{};
  int ndim_ = 0;
};

}  // namespace optimus
