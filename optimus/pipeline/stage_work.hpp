#pragma once
// What a pipeline stage computes, seen from the executor: the model's chunks stand behind this.

#include "optimus/pipeline/schedule.hpp"
#include "optimus/tensor/view.hpp"

namespace optimus::pipeline {

/// What goes from one chunk to the next: activations or their gradients, and a few numbers beside them (token counts of experts).
struct StageMessage {
  View rows;    ///< none at the ends of the pipeline
  View counts;  ///< i64; none at the ends, and where the format has none
};

/// Sizes of a message, equal for all chunks and micro-batches of a direction.
struct MessageFormat {
  DType dtype = DType::kF32;
  Shape rows;
  Index num_counts = 0;
};
struct MessageFormats {
  MessageFormat forward, backward;
};

/// The computation of one stage.
///
/// `received` is what the chunk before (forward) or behind (backward) has sent; `sent` is to be filled, all of it. The first chunk of the model receives nothing
/// forward and sends nothing backward, the last the other way round. All views are the executor's and end with the call; what is needed later has to be
/// copied. `received` may be overwritten. Chunks without layers pass on what they get.
///
/// Order:   calls come in the order of the schedule, one at a time; what is added to gradients is added in the order of micro-batches.
/// Errors:  whatever is thrown ends all stages (Executor::run).
class StageWork {
 public:
  virtual ~StageWork() = default;
  virtual void forward(const Action& action, const StageMessage& received, const StageMessage& sent) = 0;
  /// Both parts at once.
  virtual void backward(const Action& action, const StageMessage& received, const StageMessage& sent) = 0;
  /// The gradient of the chunk's input. `received` is gone afterwards: what the weight part needs of it is kept in the action's slot.
  virtual void backward_input(const Action& action, const StageMessage& received, const StageMessage& sent) = 0;
  /// The gradients of the chunk's weights, from what the two passes kept in the slot.
  virtual void backward_weight(const Action& action) = 0;
};

}  // namespace optimus::pipeline
