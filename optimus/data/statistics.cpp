#include "optimus/data/statistics.hpp"

#include <cmath>
#include <numeric>

namespace optimus {

double unigram_entropy(const Dataset& dataset) {
  const DatasetInfo& info = dataset.info();
  std::vector<Index> counts(static_cast<std::size_t>(info.vocab_size), 0);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(info.sequence_length + 1));
  for (Index sample = 0; sample < info.num_samples; ++sample) {
    dataset.read_sample(sample, ids);
    for (std::size_t i = 1; i < ids.size(); ++i) ++counts[static_cast<std::size_t>(ids[i])];
  }
  const auto total = static_cast<double>(std::accumulate(counts.begin(), counts.end(), Index{0}));
  double entropy = 0;
  for (const Index count : counts) {
    if (count > 0) entropy -= static_cast<double>(count) / total * std::log(static_cast<double>(count) / total);
  }
  return entropy;
}

}  // namespace optimus
