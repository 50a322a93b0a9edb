#pragma once
// Which instruction set to use.

#include "optimus/backend/cpu/kernels/kernels.hpp"

namespace optimus::cpu {

/// Fewest to most.
enum class Isa { kBaseline, kAvx2, kAvx512, kAvx512Bf16 };

/// The best that this processor has and ONEDNN_MAX_CPU_ISA (its usual values: SSE41 … AVX2 … AVX512_CORE … AVX512_CORE_BF16 … ALL) allows.
/// Errors: ConfigError for a value that is none of them.
[[nodiscard]] Isa detect_isa();
/// The same without the environment; `limit` as the variable's value, "" for none.
[[nodiscard]] Isa detect_isa(const char* limit);
/// The inner loops of this instruction set, which the processor must have.
[[nodiscard]] const KernelTable& kernels_of(Isa isa);

}  // namespace optimus::cpu
