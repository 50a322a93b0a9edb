#include "optimus/train/validation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace optimus {

DataConfig Validation::data_config(const DataConfig& training) {
  DataConfig config = training;
  config.path = training.validation;
  config.sources.clear();
  config.shuffle_epochs = false;
  return config;
}

Validation::Validation(const RunConfig& config, const DatasetInfo& training)
    : micro_batch_(config.batch.micro_batch),
      sampler_(data_config(config.data), static_cast<std::uint64_t>(config.run.seed)),
      batch_(config.batch.micro_batch, config.data.sequence_length, config.data.mask_document_boundaries ? training.end_of_document : -1) {
  const DatasetInfo& info = sampler_.datasets().front().info();
  if (info.tokenizer_checksum != training.tokenizer_checksum) {
    throw DataError(fmt::format("[data] {} was made with tokenizer \"{}\", the training data with \"{}\"; prepare both with the same", config.data.validation,
                                info.tokenizer, training.tokenizer));
  }
  if (info.vocab_size > config.shape.vocab_size) {
    throw DataError(fmt::format("[data] {} has a vocabulary of {}, the model one of {}", config.data.validation, info.vocab_size, config.shape.vocab_size));
  }
}

double Validation::loss(Communicator& world, const Mesh& mesh, StageModel& model) {
  const Index samples = sampler_.samples_per_epoch(), mine = mesh.data_index(world.rank()) * micro_batch_, stride = mesh.data_ranks() * micro_batch_;
  std::array<double, 2> sums = {0, 0};  // of -log p, of labels
  for (Index round = 0; round < samples; round += stride) {
    const Index begin = std::min(round + mine, samples);
    batch_.read(sampler_, begin, std::min(micro_batch_, samples - begin));
    batch_.pad(micro_batch_);
    const PassSums pass = model.forward(batch_.micro_batches(micro_batch_), 1);
    sums[0] += pass.lm_loss;
    sums[1] += static_cast<double>(pass.valid_labels);
  }
  if (mesh.member_index(world.rank(), Axis::kTp) != 0) sums = {0, 0};  // the same as of its first peer
  if (world.size() > 1) world.all_reduce(View(reinterpret_cast<std::byte*>(sums.data()), DType::kF64, {2}), Reduce::kSum);
  return sums[1] > 0 ? sums[0] / sums[1] : 0.0;
}

}  // namespace optimus
