#pragma once
// NaN and Inf in plain memory, at the speed at which it can be read.

#include <optional>

#include "optimus/tensor/view.hpp"

namespace optimus {

enum class NonFiniteKind { kNone, kNan, kInf };

/// NaN if there is one, else Inf if there is one. f64, f32, bf16, f16; other types have neither.
/// Numerics: looks at exponents alone, so that neither overflow nor the rounding mode matters.
[[nodiscard]] NonFiniteKind find_nonfinite(ConstView values);

/// Index of the first NaN or Inf. As fast as find_nonfinite() where there is none.
[[nodiscard]] std::optional<Index> find_first_nonfinite(ConstView values);

/// Overwrites element `index` of f64, f32 or bf16 values; of other types nothing.
void set_number(View values, Index index, double number);

}  // namespace optimus
