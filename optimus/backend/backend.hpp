#pragma once
// What a device must be able to compute: a few families of kernels behind one interface.
//
// Kernels trust their arguments: optimus/ops/ checks shapes and types, documents each operation, and is what everybody else calls.
// Implementations: ref (oracle: plain loops, double accumulation, also f64), cpu (threads, SIMD, register tiles), dry (computes nothing, counts).

#include <string>

#include "optimus/backend/attention.hpp"
#include "optimus/backend/gemm.hpp"
#include "optimus/backend/loss.hpp"
#include "optimus/backend/misc.hpp"
#include "optimus/backend/moe.hpp"
#include "optimus/backend/norm.hpp"
#include "optimus/backend/update.hpp"

namespace optimus {

/// One device as seen by one rank. Not thread-safe: one caller at a time; kernels use the device's own threads.
class Backend : public GemmKernels,
                public NormKernels,
                public AttentionKernels,
                public MoeKernels,
                public LossKernels,
                public UpdateKernels,
                public MiscKernels {
 public:
  /// "cpu (avx512_bf16, 2 threads)": for logs.
  [[nodiscard]] virtual std::string description() const = 0;
  /// Whether tensors of this element type can be computed on.
  [[nodiscard]] virtual bool supports(DType dtype) const = 0;
};

}  // namespace optimus
