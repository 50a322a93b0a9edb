#pragma once
// The CPU at speed: OpenMP threads and SIMD kernels of our own, built for several instruction sets and chosen at run time.

#include <memory>

#include "optimus/backend/backend.hpp"

namespace optimus {

/// Computes on f32 and bf16. Instruction set by run-time detection (ONEDNN_MAX_CPU_ISA lowers it, as it does for oneDNN).
///
/// `threads`: OpenMP threads of this rank, >= 1. Every parallel region asks for that number by itself; nothing process-wide is set.
/// Memory:   2 MB of scratch a thread from the start (kernels/gemm.cpp). More is taken when a larger attention (2 * keys * head_size floats a thread, for
///           backward) or a larger intermediate is seen first, and kept: no allocation once every shape has been seen.
/// Numerics: every result is bitwise equal for any number of threads, of one instruction set.
/// Errors:   ConfigError for threads < 1, or if ONEDNN_MAX_CPU_ISA names no instruction set.
[[nodiscard]] std::unique_ptr<Backend> make_cpu_backend(int threads);

/// Measured arithmetic peak in FLOP/s of `threads` threads with the instruction set that make_cpu_backend would use: multiply-adds on registers only, best of
/// several rounds (about 0.1 s in all). f32 or bf16; where there is no bf16 arithmetic that is the rate of f32, on which bf16 is then computed.
/// Errors:   UnsupportedError for another type.
[[nodiscard]] double measure_peak(DType dtype, int threads);

}  // namespace optimus
