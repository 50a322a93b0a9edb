#pragma once
// The loss on a corpus that is not trained on.

#include <memory>

#include "optimus/comm/communicator.hpp"
#include "optimus/train/batch.hpp"
#include "optimus/train/run_config.hpp"
#include "optimus/train/stage_model.hpp"

namespace optimus {

/// A prepared folder, evaluated whole: micro-batches dealt out to the data ranks in turn; who has none left computes rows without labels beside the others.
class Validation {
 public:
  /// Errors: DataError if the folder cannot be read or was made with another tokenizer or sequence length than `training`.
  Validation(const RunConfig& config, const DatasetInfo& training);
  /// Sum of -log p over all labels divided by their number, whatever the ranks and the micro-batch.
  /// Collective: over `world`.
  [[nodiscard]] double loss(Communicator& world, const Mesh& mesh, StageModel& model);

 private:
  static DataConfig data_config(const DataConfig& training);
  Index micro_batch_;
  Sampler sampler_;
  Batch batch_;
};

}  // namespace optimus
