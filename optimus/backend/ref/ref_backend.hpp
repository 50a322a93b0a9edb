#pragma once
// The oracle: plain loops, double accumulation. Slow and obviously right.

#include <memory>

#include "optimus/backend/backend.hpp"

namespace optimus {

/// Computes on f64, f32 and bf16.
[[nodiscard]] std::unique_ptr<Backend> make_ref_backend();

}  // namespace optimus
