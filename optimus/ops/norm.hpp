#pragma once
// RMSNorm with gain (OLMoE) and LayerNorm without parameters (OLMo), over the last dimension.

#include "optimus/backend/backend.hpp"

namespace optimus::ops {

/// Normalises each row by its root mean square.
///
///   rstd[t] = 1 / sqrt(mean_d(x[t,d]^2) + eps);   y[t,d] = x[t,d] * rstd[t] * gain[d]
///
/// Shapes:   x_TD, y_TD [T, D]; gain_D [D]; rstd_T [T]; T may be 0.
/// Types:    x, gain, y equal (f64, f32, bf16); rstd f32 (f64: f64). Sums in f32.
/// Writes:   y_TD, rstd_T, overwritten. y may not alias x: backward reads x again.
/// Numerics: deterministic, bitwise equal for any number of threads.
/// Source:   Zhang & Sennrich 2019, arXiv:1910.07467, eps inside the root.
void rms_norm_forward(Backend& backend, ConstView x_TD, ConstView gain_D, double eps, View y_TD, View rstd_T);

///   n[t,d] = x[t,d] * rstd[t];   dgain[d] += sum_t dy[t,d] * n[t,d]
///   dx[t,d] (+)= rstd[t] * (dy[t,d]*gain[d] - n[t,d] * mean_d(dy[t,d]*gain[d]*n[t,d]))
///
/// Types:    as forward; dgain f32 or the type of gain.
/// Writes:   dx_TD overwritten or accumulated; may alias dy_TD when overwritten. dgain_D accumulated.
void rms_norm_backward(Backend& backend, ConstView dy_TD, ConstView x_TD, ConstView gain_D, ConstView rstd_T, View dx_TD, Write write, View dgain_D);

/// RMSNorm of rows that are cut into parts, each on a rank of its own: what the whole row has to say passes between the ranks in the middle.
///
///   sums[t] = sum_d(x[t,d]^2)                        then added up over the parts
///   rstd[t] = 1 / sqrt(sums[t] / width + eps)        width: of the whole row
///   y[t,d] = x[t,d] * rstd[t] * gain[d]
///
/// Shapes:   x_TD, y_TD [T, D]; gain_D [D]; sums_T, rstd_T [T].   D: width of the part; T may be 0.
/// Types:    x, gain, y equal (f64, f32, bf16); sums, rstd f32 (f64: f64).
/// Writes:   the last argument, overwritten. rms_norm_rstd may write where it reads.
/// Numerics: deterministic, bitwise equal for any number of threads. On cpu one part that is the whole gives the bits of rms_norm_forward.
void row_sum_squares(Backend& backend, ConstView x_TD, View sums_T);
void rms_norm_rstd(Backend& backend, ConstView sums_T, Index width, double eps, View rstd_T);
void rms_norm_apply(Backend& backend, ConstView x_TD, ConstView gain_D, ConstView rstd_T, View y_TD);

/// Its backward:
///
///   n[t,d] = x[t,d] * rstd[t];   dots[t] = sum_d(dy[t,d] * gain[d] * n[t,d])      then added up over the parts
///   dx[t,d] (+)= rstd[t] * (dy[t,d]*gain[d] - n[t,d] * dots[t] / width);   dgain[d] += sum_t dy[t,d] * n[t,d]
///
/// Types:    as forward; dgain f32 or the type of gain.
/// Writes:   dots_T, dx_TD (may alias dy when overwritten), dgain_D as rms_norm_backward.
void rms_norm_dots(Backend& backend, const NormKernels::RmsNormPart& part, View dots_T);
void rms_norm_backward_apply(Backend& backend, const NormKernels::RmsNormPart& part, ConstView dots_T, View dx_TD, Write write, View dgain_D);

///   mean[t] = mean_d(x[t,d]);  rstd[t] = 1 / sqrt(mean_d((x[t,d]-mean[t])^2) + eps);  y[t,d] = (x[t,d]-mean[t]) * rstd[t]
///
/// Types:    x, y equal; mean, rstd f32 (f64: f64).
/// Writes:   y_TD, mean_T, rstd_T, overwritten.
void layer_norm_forward(Backend& backend, ConstView x_TD, double eps, View y_TD, View mean_T, View rstd_T);

///   dx[t,d] (+)= rstd[t] * (dy[t,d] - mean_d(dy[t,:]) - y[t,d] * mean_d(dy[t,:]*y[t,:]))
/// Writes:   dx_TD overwritten or accumulated; may alias dy_TD when overwritten.
void layer_norm_backward(Backend& backend, ConstView dy_TD, ConstView x_TD, ConstView mean_T, ConstView rstd_T, View dx_TD, Write write);

}  // namespace optimus::ops
