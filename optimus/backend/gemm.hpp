#pragma once
// Matrix products. Documented in optimus/ops/linear.hpp.

#include "optimus/tensor/view.hpp"

namespace optimus {

/// What happens to the old contents of an output.
enum class Write { kOverwrite, kAccumulate };

class GemmKernels {
 public:
  virtual ~GemmKernels() = default;
  virtual void linear_forward(ConstView x_TI, ConstView w_OI, View y_TO) = 0;
  virtual void linear_backward_input(ConstView dy_TO, ConstView w_OI, View dx_TI, Write write) = 0;
  virtual void linear_backward_weight(ConstView dy_TO, ConstView x_TI, View dw_OI) = 0;
  virtual void grouped_linear_forward(ConstView x_RI, ConstView w_eOI, ConstView segments_e, View y_RO) = 0;
  virtual void grouped_linear_backward_input(ConstView dy_RO, ConstView w_eOI, ConstView segments_e, View dx_RI, Write write) = 0;
  virtual void grouped_linear_backward_weight(ConstView dy_RO, ConstView x_RI, ConstView segments_e, View dw_eOI) = 0;
};

}  // namespace optimus
