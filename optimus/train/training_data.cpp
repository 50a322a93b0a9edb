#include "optimus/train/training_data.hpp"

#include <fmt/format.h>

#include "optimus/base/counted.hpp"

namespace optimus {

std::unique_ptr<Sampler> open_training_data(const RunConfig& config) {
  auto sampler = std::make_unique<Sampler>(config.data, static_cast<std::uint64_t>(config.run.seed));
  const DatasetInfo& info = sampler->datasets().front().info();
  const std::string folder = sampler->datasets().front().folder().string();
  if (info.vocab_size > config.shape.vocab_size) {
    throw DataError(fmt::format("[data] {} has a vocabulary of {} ids, the model one of {}; raise model.vocab_size or prepare with the model's tokenizer",
                                folder, info.vocab_size, config.shape.vocab_size));
  }
  if (info.sequence_length != config.data.sequence_length) {
    throw DataError(fmt::format("[data] {} was prepared with sequences of {}, data.sequence_length is {}", folder, counted(info.sequence_length, "token"),
                                config.data.sequence_length));
  }
  if (config.data.mask_document_boundaries && info.end_of_document < 0) {
    throw DataError(fmt::format("[data] {} has no end-of-document id, which data.mask_document_boundaries needs; prepare it with --end-of-document", folder));
  }
  return sampler;
}

}  // namespace optimus
