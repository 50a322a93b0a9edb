#pragma once
// Matrix products of Linear layers, alone and for stacked experts. Weights are [out, in], as Hugging Face stores them.

#include "optimus/backend/backend.hpp"

namespace optimus::ops {

/// y[t,o] = sum_i x[t,i] * w[o,i]
///
/// Shapes:   x_TI [T, I], w_OI [O, I], y_TO [T, O]; T, I, O may be 0 (I = 0: y is 0).
/// Types:    x and w equal (f64, f32, bf16); y that type or f32. Sums in f32 (f64: f64).
/// Writes:   y_TO, overwritten.
void linear_forward(Backend& backend, ConstView x_TI, ConstView w_OI, View y_TO);

/// dx[t,i] (+)= sum_o dy[t,o] * w[o,i]
///
/// Types:    dy and w equal; dx that type or f32.
/// Writes:   dx_TI, overwritten or accumulated (rounded once to its type after adding).
void linear_backward_input(Backend& backend, ConstView dy_TO, ConstView w_OI, View dx_TI, Write write);

/// dw[o,i] += sum_t dy[t,o] * x[t,i]
///
/// Types:    dy and x equal (f64, f32, bf16); dw f32 or that type. Sums in f32 (f64: f64).
/// Writes:   dw_OI, accumulated; T = 0 leaves it unchanged.
void linear_backward_weight(Backend& backend, ConstView dy_TO, ConstView x_TI, View dw_OI);

/// The three products of linear_*, one per expert over its segment of rows: rows [segments[j], segments[j+1]) meet w[j].
///
/// Shapes:   x_RI [R, I], w_eOI [e, O, I], segments_e i64 [e + 1], ascending, segments[0] = 0; y_RO [R, O].
///           Views may have more rows than segments[e]: rows from segments[e] on are neither read nor written (capacity for the worst routing).
/// Writes:   as linear_*; dw of an expert without rows is unchanged, so exactly 0 stays exactly 0.
void grouped_linear_forward(Backend& backend, ConstView x_RI, ConstView w_eOI, ConstView segments_e, View y_RO);
void grouped_linear_backward_input(Backend& backend, ConstView dy_RO, ConstView w_eOI, ConstView segments_e, View dx_RI, Write write);
void grouped_linear_backward_weight(Backend& backend, ConstView dy_RO, ConstView x_RI, ConstView segments_e, View dw_eOI);

}  // namespace optimus::ops
