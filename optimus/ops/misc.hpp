#pragma once
// Embedding, sums, conversions.

#include "optimus/backend/backend.hpp"

namespace optimus::ops {

/// x[t,:] = w[ids[t] - vocab_begin,:], 0 where that row is not here.   ids i32.
///
/// w_VD has the rows [vocab_begin, vocab_begin + V) of the embedding: over the ranks that have the others, the sum is the embedding of all.
void embedding_forward(Backend& backend, ConstView w_VD, ConstView ids_T, View x_TD, Index vocab_begin = 0);
/// dw[ids[t] - vocab_begin,:] += dx[t,:] for the rows that are here, in row order t (deterministic for any number of threads).   dw f32 or the type of dx.
void embedding_backward(Backend& backend, ConstView dx_TD, ConstView ids_T, View dw_VD, Index vocab_begin = 0);
/// out = a + b, one rounding. Types equal; out may alias a or b.
void add(Backend& backend, ConstView a, ConstView b, View out);
/// Element-wise conversion among f64, f32, bf16, rounding to nearest even.
void convert(Backend& backend, ConstView in, View out);
/// out = 0.
void fill_zero(Backend& backend, View out);
/// out = in; same type and count.
void copy(Backend& backend, ConstView in, View out);

}  // namespace optimus::ops
