#pragma once
// What a corpus looks like before any model: the loss of guessing by frequency alone.

#include "optimus/data/dataset.hpp"

namespace optimus {

/// -sum_v p[v] * log(p[v]) in nats, p the share of id v among the ids to predict (the last S of every sample): the loss of the best model without context.
///
/// Reads every sample: seconds for each gigabyte.
[[nodiscard]] double unigram_entropy(const Dataset& dataset);

}  // namespace optimus
