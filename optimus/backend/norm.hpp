#pragma once
// Normalisations. Documented in optimus/ops/norm.hpp.

#include "optimus/backend/gemm.hpp"

namespace optimus {

class NormKernels {
 public:
  virtual ~NormKernels() = default;
  virtual void rms_norm_forward(ConstView x_TD, ConstView gain_D, double eps, View y_TD, View rstd_T) = 0;
  virtual void rms_norm_backward(ConstView dy_TD, ConstView x_TD, ConstView gain_D, ConstView rstd_T, View dx_TD, Write write, View dgain_D) = 0;
  virtual void row_sum_squares(ConstView x_TD, View sums_T) = 0;
  virtual void rms_norm_rstd(ConstView sums_T, Index width, double eps, View rstd_T) = 0;
  virtual void rms_norm_apply(ConstView x_TD, ConstView gain_D, ConstView rstd_T, View y_TD) = 0;
  /// The part of a row that is here, of a row that is normalised over `width` elements.
  struct RmsNormPart {
    ConstView dy_TD, x_TD, gain_D, rstd_T;
    Index width;
  };
  virtual void rms_norm_dots(const RmsNormPart& part, View dots_T) = 0;
  virtual void rms_norm_backward_apply(const RmsNormPart& part, ConstView dots_T, View dx_TD, Write write, View dgain_D) = 0;
  virtual void layer_norm_forward(ConstView x_TD, double eps, View y_TD, View mean_T, View rstd_T) = 0;
  virtual void layer_norm_backward(ConstView dy_TD, ConstView x_TD, ConstView mean_T, ConstView rstd_T, View dx_TD, Write write) = 0;
};

}  // namespace optimus
