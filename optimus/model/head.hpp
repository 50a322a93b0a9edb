#pragma once
// Final norm, language-model head and cross-entropy, fused over blocks of rows: logits of one block exist at a time, never [T, V].
//
// The scale of the loss is known before forward, so each block's gradients are made while its logits are still there.
// Under tensor parallelism a rank has the logits of its part of the vocabulary; what the soft-max needs of the other parts is three numbers a row.

#include "optimus/model/norm.hpp"

namespace optimus {

/// Weights, or their gradients. With a tied head `w_head_VD` is the embedding's.
struct HeadWeights {
  View final_norm_D, w_head_VD;
};

/// Rows of logits that exist at once, of (this rank's part of) a vocabulary.
[[nodiscard]] Index logits_block_rows(Index rows, Index vocab_size);

/// One call over the rows of a micro-batch.
struct HeadCall {
  View x_lD;  ///< output of the last block
  ConstView labels_T;
  double scale = 0;  ///< multiplies the gradient of every valid row's -log p
  View dx_lD;        ///< overwritten; does not exist: losses only
  const LogitsSink* sink = nullptr;
  std::function<void(ConstView)> probe_hidden;  ///< told the rows after the final norm
};

/// Sum of -log p over valid rows (0 when planning), the same on every TP rank.   dw accumulated.
double head_forward_backward(const ModelContext& c, const HeadWeights& w, const HeadCall& call, const HeadWeights& dw);

}  // namespace optimus
