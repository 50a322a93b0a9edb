#include "optimus/tensor/chunk.hpp"

namespace optimus {

Box Box::whole(const Shape& shape) {
  Box box{.begin = shape, .shape = shape};
  for (int d = 0; d < shape.ndim(); ++d) box.begin.set(d, 0);
  return box;
}

}  // namespace optimus
