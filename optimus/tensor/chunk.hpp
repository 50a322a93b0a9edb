#pragma once
// A piece of a globally named tensor: what checkpoints, sharded optimizers and imports exchange.

#include <string>

#include "optimus/tensor/view.hpp"

namespace optimus {

/// An axis-aligned part of a tensor: indices [begin[d], begin[d] + shape[d]) in every dimension.
struct Box {
  Shape begin, shape;
  /// The whole of a tensor.
  [[nodiscard]] static Box whole(const Shape& shape);
};

/// Elements of one named tensor in memory.
///
/// The tensor has `global_shape`; `box` is the part that a rank's layout gives it (all of it under data parallelism alone); of the box, flattened
/// row-major, elements [flat_begin, flat_begin + data.count()) are here. Sharded optimizers hold flat ranges, tensor parallelism holds boxes; both at once is normal.
struct Chunk {
  std::string name;  ///< "model.NAME", "master.NAME", "exp_avg.NAME", "exp_avg_sq.NAME" with NAME as in ParamSpec ("{}" stands for the index along dimension 0)
  Shape global_shape;
  Box box;
  Index flat_begin = 0;
  View data;  ///< flat, one dimension
};

}  // namespace optimus
