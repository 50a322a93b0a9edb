#pragma once
// Embedding, sums, conversions. Documented in optimus/ops/misc.hpp.

#include "optimus/backend/gemm.hpp"

namespace optimus {

class MiscKernels {
 public:
  virtual ~MiscKernels() = default;
  virtual void embedding_forward(ConstView w_VD, ConstView ids_T, Index vocab_begin, View x_TD) = 0;
  virtual void embedding_backward(ConstView dx_TD, ConstView ids_T, Index vocab_begin, View dw_VD) = 0;
  virtual void add(ConstView a, ConstView b, View out) = 0;
  virtual void convert(ConstView in, View out) = 0;
  virtual void fill_zero(View out) = 0;
  virtual void copy(ConstView in, View out) = 0;
};

}  // namespace optimus
