#pragma once
// Tables of rotary positions.
//
//   angle[p, a] = p / theta^(2a / A);   tables of its cosine and sine for a < A / 2. Angles in f32, as Hugging Face has them.
//   Source: Su et al. 2021, arXiv:2104.09864, in the form that turns the pairs (a, a + A / 2).

#include "optimus/tensor/view.hpp"

namespace optimus {

/// Writes:   cos, sin [P, A / 2], f32 or f64.
void fill_rotary_tables(double theta, View cos_PA, View sin_PA);
/// positions[b * S + s] = first + s.   positions i32 [B * S].
void fill_positions(Index sequence_length, Index first, View positions_T);

}  // namespace optimus
