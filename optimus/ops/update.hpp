#pragma once
// Optimizer updates and norms on flat arrays.

#include "optimus/backend/backend.hpp"

namespace optimus::ops {

/// AdamW with decoupled decay on the fp32 master copy; the new weight is its rounding.
///
///   g = gradient_scale * gradient;   m = b1*m + (1-b1)*g;   v = b2*v + (1-b2)*g^2
///   master = master*(1 - lr*wd) - lr * (m / (1-b1^step)) / (sqrt(v / (1-b2^step)) + eps);   weight = round(master)
///
/// Shapes:   all [n]. Types: gradient f32 or bf16; master, exp_avg, exp_avg_sq f32; weight bf16 or f32 (may be the same memory as master).
/// Numerics: element by element; bitwise equal however the array is cut into shards or threads.
/// Source:   Loshchilov & Hutter 2019, arXiv:1711.05101.
void adamw_update(Backend& backend, const AdamWStep& step, ConstView gradient, View master, View exp_avg, View exp_avg_sq, View weight);

/// master = master*(1 - lr*weight_decay) - lr*gradient_scale*gradient;   weight = round(master)
void sgd_update(Backend& backend, double lr, double weight_decay, double gradient_scale, ConstView gradient, View master, View weight);

/// sum_i x[i]^2 in f64; NaN or Inf if any element is. Blocks of fixed size, summed in order: bitwise equal for any number of threads.
[[nodiscard]] double sum_squares(Backend& backend, ConstView x);

}  // namespace optimus::ops
