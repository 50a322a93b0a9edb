// This instruction set's kernels in one table.

#include "optimus/backend/cpu/kernels/tables.hpp"

#define OPTIMUS_TEXT_OF(name) #name
#define OPTIMUS_TEXT(name) OPTIMUS_TEXT_OF(name)

namespace optimus::cpu::OPTIMUS_ISA {

KernelTable kernel_table() {
  return {OPTIMUS_TEXT(OPTIMUS_ISA), kGemmTable, kNormTable, kAttentionForwardTable, kAttentionBackwardTable, kLossTable, kMoeTable, kUpdateTable, kMiscTable};
}

}  // namespace optimus::cpu::OPTIMUS_ISA
