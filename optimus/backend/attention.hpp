#pragma once
// Attention and what surrounds it. Documented in optimus/ops/attention.hpp.

#include "optimus/backend/gemm.hpp"

namespace optimus {

/// Sizes of one attention call. Queries are the last `queries` positions of `keys`: query i stands at position keys - queries + i.
struct AttentionShape {
  Index batch = 0, queries = 0, keys = 0, heads = 0, kv_heads = 0, head_size = 0;
};

class AttentionKernels {
 public:
  virtual ~AttentionKernels() = default;
  virtual void attention_forward(const AttentionShape& shape, ConstView q, ConstView k, ConstView v, ConstView document_start, View o, View lse) = 0;
  struct AttentionGradients {
    View dq, dk, dv;
  };
  struct AttentionSaved {
    ConstView q, k, v, document_start, o, lse;
  };
  virtual void attention_backward(const AttentionShape& shape, ConstView d_o, const AttentionSaved& saved, const AttentionGradients& gradients) = 0;
  /// Makes the backend's own scratch large enough for attention_* of this shape, so that those calls allocate nothing. Calls without it work too.
  virtual void reserve_attention(const AttentionShape& shape, DType dtype) = 0;
  virtual void rope(View x, ConstView positions_T, ConstView cos, ConstView sin, Index head_size, bool is_backward) = 0;
  virtual void clamp_forward(ConstView x, double limit, View y) = 0;
  virtual void clamp_backward(ConstView dy, ConstView x, double limit, View dx) = 0;
};

}  // namespace optimus
