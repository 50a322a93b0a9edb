#pragma once
// Tensors without ownership: a pointer, an element type and a shape. Always row-major and contiguous.

#include <cstddef>
#include <span>

#include "optimus/base/dtype.hpp"
#include "optimus/tensor/shape.hpp"

namespace optimus {

/// Read-only view. Byte is `const std::byte` here and `std::byte` in View.
template <class Byte>
class BasicView {
 public:
  BasicView() = default;
  BasicView(Byte* data, DType dtype, Shape shape) : data_(data), dtype_(dtype), shape_(shape) {}
  /// A View is accepted wherever a ConstView is asked for.
  template <class Other> requires(std::is_const_v<Byte> && std::is_same_v<const Other, Byte> && !std::is_const_v<Other>)
  BasicView(const BasicView<Other>& other) : data_(other.data()), dtype_(other.dtype()), shape_(other.shape()) {}  // NOLINT: implicit on purpose

  [[nodiscard]] Byte* data() const { return data_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const Shape& shape() const { return shape_; }
  [[nodiscard]] Index size(int dim) const { return shape_[dim]; }
  [[nodiscard]] Index count() const { return shape_.count(); }
  [[nodiscard]] Index bytes() const { return count() * dtype_bytes(dtype_); }
  /// False for a default-made view, which stands for "no tensor". A view of zero elements is a tensor.
  [[nodiscard]] bool exists() const { return shape_.ndim() > 0 || data_ != nullptr; }

  /// The elements as T.  Errors: InternalError if they are not T.
  template <class T> [[nodiscard]] auto as() const {
    using Element = std::conditional_t<std::is_const_v<Byte>, const T, T>;
    if (dtype_of<T> != dtype_) throw InternalError("[tensor] a view was read as another element type");
    return reinterpret_cast<Element*>(data_);
  }
  template <class T> [[nodiscard]] auto span() const { return std::span(as<T>(), static_cast<std::size_t>(count())); }

  /// Same elements, other shape.  Errors: ShapeError if the counts differ.
  [[nodiscard]] BasicView reshaped(Shape shape) const {
    if (shape.count() != count()) throw ShapeError("[tensor] cannot see " + shape_.str() + " as " + shape.str());
    return {data_, dtype_, shape};
  }
  /// Entries [begin, end) of the outermost dimension.  Errors: ShapeError if out of range.
  [[nodiscard]] BasicView rows(Index begin, Index end) const {
    if (begin < 0 || end < begin || shape_.ndim() == 0 || end > shape_[0]) throw ShapeError("[tensor] rows out of range of " + shape_.str());
    Shape shape = shape_;
    shape.set(0, end - begin);
    return {data_ + begin * shape_.count_from(1) * dtype_bytes(dtype_), dtype_, shape};
  }
  /// Entry i of the outermost dimension, which is dropped.
  [[nodiscard]] BasicView operator[](Index i) const {
    const BasicView row = rows(i, i + 1);
    Shape shape;
    for (int d = 1; d < shape_.ndim(); ++d) shape.push_back(shape_[d]);
    return {row.data(), dtype_, shape};
  }

 private:
  Byte* data_ = nullptr;
  DType dtype_ = DType::kF32;
  Shape shape_;
};

using View = BasicView<std::byte>;
using ConstView = BasicView<const std::byte>;

}  // namespace optimus
