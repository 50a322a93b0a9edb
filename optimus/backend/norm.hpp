#pragma once
// Normalisations. Documented in optimus/ops/norm.hpp.

#include "optimus/backend/gemm.hpp"

namespace optimus {

class NormKernels {
 public:
  virtual ~NormKernels() = default;
  virtual void rms_norm_forward(ConstView x_TD, ConstView gain_D, double eps, View y_TD, View rstd_T) = 0;
  virtual void rms_norm_backward(ConstView dy_TD, ConstView x_TD, ConstView gain_D, ConstView rstd_T, View dx_TD, Write write, View dgain_D) = 0;
  virtual void layer_norm_forward(ConstView x_TD, double eps, View y_TD, View mean_T, View rstd_T) = 0;
  virtual void layer_norm_backward(ConstView dy_TD, ConstView x_TD, ConstView mean_T, ConstView rstd_T, View dx_TD, Write write) = 0;
};

}  // namespace optimus
