#include "optimus/ops/arguments.hpp"

#include <fmt/format.h>

#include "optimus/base/counted.hpp"
#include "optimus/base/error.hpp"

namespace optimus::ops {

void Arguments::fail_shape(std::string_view name, ConstView view, std::string_view wanted) const {
  throw ShapeError(fmt::format("[ops] {}: {} is {}, wanted {}", operation_, name, view.exists() ? view.shape().str() : "missing", wanted));
}

void Arguments::expect_ndim(std::string_view name, ConstView view, int ndim) const {
  if (!view.exists() || view.shape().ndim() != ndim) fail_shape(name, view, counted(ndim, "dimension"));
}

void Arguments::expect_shape(std::string_view name, ConstView view, const Shape& wanted) const {
  if (!view.exists() || !(view.shape() == wanted)) fail_shape(name, view, wanted.str());
}

void Arguments::expect_capacity(std::string_view name, ConstView view, Index rows, const Shape& like) const {
  expect_ndim(name, view, like.ndim());
  Shape wanted = like;
  wanted.set(0, view.size(0));
  if (view.size(0) < rows || !(view.shape() == wanted)) {
    wanted.set(0, rows);
    fail_shape(name, view, wanted.str() + " or more rows");
  }
}

void Arguments::expect_count(std::string_view name, ConstView view, Index count) const {
  if (!view.exists() || view.count() != count) fail_shape(name, view, counted(count, "element"));
}

void Arguments::expect(bool holds, std::string_view rule, std::string_view name, ConstView view) const {
  if (!holds) fail_shape(name, view, rule);
}

void Arguments::expect_dtype(std::string_view name, ConstView view, DType wanted) const {
  if (view.dtype() == wanted) return;
  throw UnsupportedError(fmt::format("[ops] {}: {} is {}, wanted {}", operation_, name, dtype_name(view.dtype()), dtype_name(wanted)));
}

void Arguments::expect_compute(std::string_view name, ConstView view) const {
  const DType dtype = view.dtype();
  const bool is_floating = dtype == DType::kF64 || dtype == DType::kF32 || dtype == DType::kBF16;
  if (is_floating && backend_.supports(dtype)) return;
  throw UnsupportedError(fmt::format("[ops] {}: {} is {}, which {} does not compute on", operation_, name, dtype_name(dtype), backend_.description()));
}

void Arguments::expect_same_or_f32(std::string_view name, ConstView view, ConstView reference) const {
  if (view.dtype() != DType::kF32) expect_same(name, view, reference);
}

void Arguments::expect_wide(std::string_view name, ConstView view, ConstView reference) const {
  expect_dtype(name, view, reference.dtype() == DType::kF64 ? DType::kF64 : DType::kF32);
}

}  // namespace optimus::ops
