#pragma once
// The arithmetic of reductions, apart from any transport: every transport adds with this, so all give the same bits.

#include <span>

#include "optimus/comm/communicator.hpp"

namespace optimus {

/// output[i] = sources[0][i] ∘ sources[1][i] ∘ …, from left to right.
///
/// Types:    f64, f32, i64, i32 in their own precision (integer sums wrap); bf16 in f32, rounded once at the end.
/// Writes:   output, count elements; it may be one of the sources.
/// Numerics: the order is the order of `sources`; a NaN wins over any number in kMax and kMin.
/// Errors:   UnsupportedError for any other dtype.
void reduce_in_order(std::span<const std::byte* const> sources, DType dtype, Reduce reduce, Index count, std::byte* output);

/// Errors: UnsupportedError naming the dtype if reduce_in_order cannot add it.
void check_reducible(DType dtype);

}  // namespace optimus
