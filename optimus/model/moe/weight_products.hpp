#pragma once
// The products that make weight gradients. Nothing else in backward waits for them, so a pipeline may put them off and fill its gaps with them.

#include <vector>

#include "optimus/backend/backend.hpp"

namespace optimus {

/// dw[o,i] += sum_t dy[t,o] * x[t,i], of one matrix, or of stacked ones over their segments of rows.
struct WeightProduct {
  ConstView dy, x;
  View dw;
  ConstView segments_e;  ///< does not exist: one matrix
};
/// Put off, in the order in which they are to be made. What they read must stay as it is until then.
using WeightProducts = std::vector<WeightProduct>;

void make_weight_gradient(Backend& backend, const WeightProduct& product);

}  // namespace optimus
