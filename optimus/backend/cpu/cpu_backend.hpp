#pragma once
// The CPU at speed: OpenMP threads, SIMD, oneDNN.

#include <memory>

#include "optimus/backend/backend.hpp"

namespace optimus {

/// Computes on f32 and bf16. Instruction set by run-time detection (ONEDNN_MAX_CPU_ISA lowers it, for oneDNN and for our own kernels alike).
/// `threads`: OpenMP threads of this rank, >= 1.
[[nodiscard]] std::unique_ptr<Backend> make_cpu_backend(int threads);

}  // namespace optimus
