#pragma once
// Embedding, sums, conversions.

#include "optimus/backend/backend.hpp"

namespace optimus::ops {

/// x[t,:] = w[ids[t],:].   ids i32, each in [0, V).
void embedding_forward(Backend& backend, ConstView w_VD, ConstView ids_T, View x_TD);
/// dw[ids[t],:] += dx[t,:], in row order t (deterministic for any number of threads).   dw f32 or the type of dx.
void embedding_backward(Backend& backend, ConstView dx_TD, ConstView ids_T, View dw_VD);
/// out = a + b, one rounding. Types equal; out may alias a or b.
void add(Backend& backend, ConstView a, ConstView b, View out);
/// Element-wise conversion among f64, f32, bf16, rounding to nearest even.
void convert(Backend& backend, ConstView in, View out);
/// out = 0.
void fill_zero(Backend& backend, View out);
/// out = in; same type and count.
void copy(Backend& backend, ConstView in, View out);

}  // namespace optimus::ops
