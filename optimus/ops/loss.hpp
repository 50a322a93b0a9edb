#pragma once
// Cross-entropy on a block of rows, in two halves so that ranks that hold parts of the vocabulary can combine the statistics between them.

#include "optimus/backend/backend.hpp"

namespace optimus::ops {

/// A label with this value has no loss.
inline constexpr std::int32_t kIgnoredLabel = -100;

/// max[t] = max_v logits[t,v];  sum[t] = sum_v exp(logits[t,v] - max[t]);  target[t] = logits[t, label - vocab_begin] if that column is here, else 0.
///
/// Shapes:   logits_TV [T, V'] (the columns [vocab_begin, vocab_begin + V') of the vocabulary); labels_T i32 [T], kIgnoredLabel or >= 0; outputs [T].
/// Types:    logits f32, bf16, f64; outputs f32 (f64: f64).
void cross_entropy_statistics(Backend& backend, ConstView logits_TV, ConstView labels_T, Index vocab_begin, const LossKernels::SoftmaxStatistics& out);

/// The statistics of whole rows from those of M blocks of their columns; parts[m] is the max, sum and target of block m.
///
///   max[t] = max_m max_m[t];   sum[t] = sum_m sum_m[t] * exp(max_m[t] - max[t]);   target[t] = sum_m target_m[t]
///
/// Shapes:   parts_M3T [M, 3, T], M > 0; outputs [T].   Types: f32 or f64, all equal.
/// Numerics: added in the order of the blocks.
void combine_softmax_statistics(Backend& backend, ConstView parts_M3T, const LossKernels::SoftmaxStatistics& out);

/// lse[t] = max[t] + log(sum[t]);   loss[t] = lse[t] - target[t], 0 for an ignored label.
void cross_entropy_loss(Backend& backend, const LossKernels::SoftmaxStatistics& statistics, ConstView labels_T, View loss_T, View lse_T);

/// dlogits[t,v] = scale * (exp(logits[t,v] - lse[t]) - [v + vocab_begin == label[t]]), 0 in rows with an ignored label.
///
/// Writes:   dlogits_TV (f32, bf16 or f64; may alias logits if the types are equal), overwritten.
void cross_entropy_gradient(Backend& backend, ConstView logits_TV, ConstView labels_T, Index vocab_begin, ConstView lse_T, double scale, View dlogits_TV);

/// index[t] = the lowest v with the largest logits[t,v].   index i32.
void argmax(Backend& backend, ConstView logits_TV, View index_T);

}  // namespace optimus::ops
