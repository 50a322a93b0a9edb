#pragma once
// The tables that the sources of this folder define, for the instruction set being compiled.

#include "optimus/backend/cpu/kernels/simd.hpp"

namespace optimus::cpu::OPTIMUS_ISA {

extern const GemmTable kGemmTable;
extern const NormTable kNormTable;
extern const AttentionForwardTable kAttentionForwardTable;
extern const AttentionBackwardTable kAttentionBackwardTable;
extern const LossTable kLossTable;
extern const MoeTable kMoeTable;
extern const UpdateTable kUpdateTable;
extern const MiscTable kMiscTable;
/// All of them together.
[[nodiscard]] KernelTable kernel_table();

}  // namespace optimus::cpu::OPTIMUS_ISA
