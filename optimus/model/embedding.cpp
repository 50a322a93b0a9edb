#include "optimus/model/embedding.hpp"

#include "optimus/model/tensor_parallel.hpp"
#include "optimus/ops/misc.hpp"

namespace optimus {

ConstView rows_view(const ModelContext& c, std::span<const std::int32_t> values) {
  return {reinterpret_cast<const std::byte*>(values.data()), DType::kI32, {c.rows()}};
}

void embedding_forward(const ModelContext& c, ConstView w_VD, ConstView ids_T, View x_lD) {
  Scratch scratch(c.arena);
  const View x_TD = partial_rows(c, x_lD);
  ops::embedding_forward(c.backend, w_VD, ids_T, x_TD, c.vocabulary().begin);
  sum_rows(c, x_TD, x_lD);
}

void embedding_backward(const ModelContext& c, ConstView dx_lD, ConstView ids_T, View dw_VD) {
  Scratch scratch(c.arena);
  ops::embedding_backward(c.backend, gather_rows(c, dx_lD), ids_T, dw_VD, c.vocabulary().begin);
}

}  // namespace optimus
