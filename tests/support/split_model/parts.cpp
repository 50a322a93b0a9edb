#include <algorithm>
#include <cstring>

#include "parts.hpp"
#include "tests/support/split_model.hpp"

namespace optimus::test {

void for_each_element(const Box& box, const Shape& whole, const std::function<void(Index part, Index whole)>& action) {
  for (Index i = 0; i < box.shape.count(); ++i) {
    Index at = 0, rest = i;
    for (int dim = 0; dim < whole.ndim(); ++dim) {
      const Index inner = box.shape.count_from(dim + 1);
      at = at * whole[dim] + box.begin[dim] + rest / inner;
      rest %= inner;
    }
    action(i, at);
  }
}

ParameterParts::ParameterParts(const Parameters& whole, const ModelSplit& split, DType gradients) {
  const auto allocate = [&](DType dtype, const Shape& shape) {
    memory_.emplace_back(shape.count() * dtype_bytes(dtype));
    return View(memory_.back().data(), dtype, shape);
  };
  for (std::size_t i = 0; i < whole.specs().size(); ++i) {
    const Box box = local_box(whole.specs()[i], split);
    const View from = whole.weights()[i], to = allocate(from.dtype(), box.shape);
    const Index bytes = dtype_bytes(from.dtype());
    for_each_element(box, from.shape(),
                     [&](Index part, Index at) { std::memcpy(to.data() + part * bytes, from.data() + at * bytes, static_cast<std::size_t>(bytes)); });
    weights_.push_back(to);
    gradients_.push_back(allocate(gradients, box.shape));
  }
  zero_gradients();
}

void ParameterParts::zero_gradients() {
  for (const View& view : gradients_) std::memset(view.data(), 0, static_cast<std::size_t>(view.bytes()));
}

std::string ParameterParts::gradient_bytes() const {
  std::string bytes;
  for (const View& view : gradients_) bytes.append(reinterpret_cast<const char*>(view.data()), static_cast<std::size_t>(view.bytes()));
  return bytes;
}

}  // namespace optimus::test
