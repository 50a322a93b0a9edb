#pragma once
// The embedding, and ids as views. Collective: over c.tp.

#include "optimus/model/context.hpp"

namespace optimus {

/// Ids or labels of the rows as i32 [T]; not copied.
[[nodiscard]] ConstView rows_view(const ModelContext& c, std::span<const std::int32_t> values);

/// x = w[ids]; each rank has a part of w.   Writes: x_lD, this rank's rows.
void embedding_forward(const ModelContext& c, ConstView w_VD, ConstView ids_T, View x_lD);
/// dw[ids] += dx for the part of w that is here, over the rows of all ranks.
void embedding_backward(const ModelContext& c, ConstView dx_lD, ConstView ids_T, View dw_VD);

}  // namespace optimus
