#include "optimus/tensor/shape.hpp"

#include <fmt/format.h>

namespace optimus {

Shape::Shape(std::initializer_list<Index> dims) {
  for (const Index size : dims) push_back(size);
}

void Shape::push_back(Index size) {
  if (size < 0) throw ShapeError(fmt::format("[tensor] negative size {}", size));
  if (ndim_ == kMaxDims) throw ShapeError(fmt::format("[tensor] more than {} dimensions", kMaxDims));
  dims_[static_cast<std::size_t>(ndim_++)] = size;
}

Index Shape::count() const { return count_from(0); }

Index Shape::count_from(int dim) const {
  Index product = 1;
  for (int d = dim; d < ndim_; ++d) product = checked_mul(product, (*this)[d]);
  return product;
}

bool Shape::operator==(const Shape& other) const {
  if (ndim_ != other.ndim_) return false;
  for (int d = 0; d < ndim_; ++d) {
    if ((*this)[d] != other[d]) return false;
  }
  return true;
}

std::string Shape::str() const {
  std::string text = "[";
  for (int d = 0; d < ndim_; ++d) text += fmt::format("{}{}", d == 0 ? "" : ", ", (*this)[d]);
  return text + "]";
}

}  // namespace optimus
