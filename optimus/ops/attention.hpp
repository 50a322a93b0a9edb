#pragma once
// Causal attention, rotary positions, clipping of queries, keys and values.

#include "optimus/backend/backend.hpp"

namespace optimus::ops {

/// Causal soft-max attention with grouped key/value heads.
///
///   g = h / (H / Hkv);   position = keys - queries + i
///   s[i,j] = <q[i,h], k[j,g]> / sqrt(A)   for document_start[position] <= j <= position
///   o[i,h] = sum_j softmax_j(s[i,:])[j] * v[j,g];   lse[i] = log(sum_j exp(s[i,j]))
///
/// Shapes:   q, o [B*queries, H*A]; k, v [B*keys, Hkv*A]; lse [B, H, queries];
///           document_start i32 [B, keys]: where the document of each position starts, at most the position itself; does not exist: 0 everywhere.
///           H a multiple of Hkv; queries <= keys; any may be 0.
/// Types:    q, k, v, o equal (f64, f32, bf16); lse f32 (f64: f64). Soft-max in f32.
/// Writes:   o, lse, overwritten.
/// Memory:   never [S, S] for all heads: blocks of queries and keys, O(threads * block * (block + A)).
/// Numerics: deterministic, bitwise equal for any number of threads.
/// Source:   Dao 2023, arXiv:2307.08691 (blocks with running maximum, saved log-sum-exp).
void attention_forward(Backend& backend, const AttentionShape& shape, ConstView q, ConstView k, ConstView v, ConstView document_start, View o, View lse);

/// Gradients of attention_forward. Probabilities are made again from q, k and lse.
///
/// Writes:   dq, dk, dv (shapes of q, k, v; dk and dv summed over the heads of a group), overwritten. No aliasing with inputs.
/// Memory:   2 * keys * A floats a thread for the sums of dk and dv, besides the blocks.
void attention_backward(Backend& backend, const AttentionShape& shape, ConstView d_o, const AttentionKernels::AttentionSaved& saved,
                        const AttentionKernels::AttentionGradients& gradients);

/// Rotates, in place, the pairs (x[a], x[a + A/2]) of every head by the angle of the row's position; backward rotates back.
///
///   forward:  y[a] = x[a]*cos - x[a+A/2]*sin;   y[a+A/2] = x[a+A/2]*cos + x[a]*sin,   cos, sin at [position[t], a]
///
/// Shapes:   x [T, n*A] for any number n of heads; positions_T i32 [T]; cos, sin [P, A/2] with all positions < P.
/// Types:    x f64, f32, bf16; cos, sin f32 (f64: f64).
void rope(Backend& backend, View x, ConstView positions_T, ConstView cos, ConstView sin, Index head_size, bool is_backward);

/// y = min(max(x, -limit), limit);  dx = dy where -limit <= x <= limit, else 0. y may alias x, dx may alias dy.
void clamp_forward(Backend& backend, ConstView x, double limit, View y);
void clamp_backward(Backend& backend, ConstView dy, ConstView x, double limit, View dx);

}  // namespace optimus::ops
