#pragma once
// Cross-entropy on a block of rows. Documented in optimus/ops/loss.hpp.

#include "optimus/tensor/view.hpp"

namespace optimus {

class LossKernels {
 public:
  virtual ~LossKernels() = default;
  struct SoftmaxStatistics {
    View max_T, sum_T, target_T;
  };
  virtual void cross_entropy_statistics(ConstView logits_TV, ConstView labels_T, Index vocab_begin, const SoftmaxStatistics& out) = 0;
  virtual void combine_softmax_statistics(ConstView parts_M3T, const SoftmaxStatistics& out) = 0;
  virtual void cross_entropy_loss(const SoftmaxStatistics& statistics, ConstView labels_T, View loss_T, View lse_T) = 0;
  virtual void cross_entropy_gradient(ConstView logits_TV, ConstView labels_T, Index vocab_begin, ConstView lse_T, double scale, View dlogits_TV) = 0;
  virtual void argmax(ConstView logits_TV, View index_T) = 0;
};

}  // namespace optimus
