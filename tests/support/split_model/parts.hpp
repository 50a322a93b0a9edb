#pragma once
// Where the elements of a part lie in the whole.

#include <functional>

#include "optimus/tensor/chunk.hpp"

namespace optimus::test {

/// Every element of `box`: its flat index in the box and in the whole tensor.
void for_each_element(const Box& box, const Shape& whole, const std::function<void(Index part, Index whole)>& action);

}  // namespace optimus::test
