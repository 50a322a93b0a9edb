#pragma once
// The data a run trains on, checked against its model.

#include <memory>

#include "optimus/train/run_config.hpp"

namespace optimus {

/// Opens `[data]`.
/// Errors: DataError if a folder cannot be read, has ids the model does not know, other sequences than data.sequence_length, or no end-of-document id where one is needed.
[[nodiscard]] std::unique_ptr<Sampler> open_training_data(const RunConfig& config);

}  // namespace optimus
