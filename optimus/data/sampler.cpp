#include "optimus/data/sampler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "optimus/base/check.hpp"
#include "optimus/base/error.hpp"
#include "optimus/base/hash.hpp"
#include "optimus/data/mixture.hpp"
#include "optimus/data/permutation.hpp"

namespace optimus {
namespace {

std::vector<SourceConfig> sources_of(const DataConfig& config) {
  if (!config.path.empty() && !config.sources.empty()) throw ConfigError("[data] data.path and data.sources are both given; keep one of them");
  if (!config.path.empty()) return {{.path = config.path, .weight = 1.0}};
  if (config.sources.empty()) throw ConfigError("[data] no corpus: set data.path to a folder made by optimus prepare, or data.sources");
  return config.sources;
}

std::vector<double> weights_of(const std::vector<SourceConfig>& sources) {
  std::vector<double> weights;
  for (const SourceConfig& source : sources) {
    if (!std::isfinite(source.weight) || source.weight <= 0)
      throw ConfigError(fmt::format("[data] {} has the weight {}; weights are above 0", source.path, source.weight));
    weights.push_back(source.weight);
  }
  return weights;
}

void check_fits(const Dataset& first, const Dataset& other) {
  const DatasetInfo &a = first.info(), &b = other.info();
  const auto fail = [&](std::string_view what, const auto& x, const auto& y) {
    throw DataError(
        fmt::format("[data] {} has {} {} and {} has {}: sources of one run must agree", first.folder().string(), what, x, other.folder().string(), y));
  };
  if (a.vocab_size != b.vocab_size) fail("vocabulary size", a.vocab_size, b.vocab_size);
  if (a.tokenizer_checksum != b.tokenizer_checksum) fail("tokenizer", a.tokenizer + " " + a.tokenizer_checksum, b.tokenizer + " " + b.tokenizer_checksum);
  if (a.sequence_length != b.sequence_length) fail("sequence length", a.sequence_length, b.sequence_length);
  if (a.end_of_document != b.end_of_document) fail("end of document", a.end_of_document, b.end_of_document);
}

}  // namespace

struct Sampler::Impl {
  std::vector<Dataset> datasets;
  std::vector<Index> first_global;  // samples of earlier sources
  Mixture mixture;
  bool shuffles_epochs = true;
  std::uint64_t seed = 0;
};

Sampler::Sampler(const DataConfig& config, std::uint64_t seed) {
  const std::vector<SourceConfig> sources = sources_of(config);
  std::vector<Dataset> datasets;
  std::vector<Index> first_global{0};
  for (const SourceConfig& source : sources) {
    const Dataset& dataset = datasets.emplace_back(source.path);
    const DatasetInfo& info = dataset.info();
    check_fits(datasets.front(), dataset);
    if (info.sequence_length != config.sequence_length) {
      throw DataError(
          fmt::format("[data] {} was prepared with sequence length {}, data.sequence_length is {}", source.path, info.sequence_length, config.sequence_length));
    }
    if (info.num_samples == 0) throw DataError(fmt::format("[data] {} holds no sample", source.path));
    first_global.push_back(checked_add(first_global.back(), info.num_samples));
  }
  impl_ = std::make_unique<Impl>(Impl{std::move(datasets), std::move(first_global), Mixture(weights_of(sources)), config.shuffle_epochs, seed});
}

Sampler::~Sampler() = default;
Sampler::Sampler(Sampler&&) noexcept = default;

const std::vector<Dataset>& Sampler::datasets() const { return impl_->datasets; }

SampleRef Sampler::locate(Index position) const {
  OPTIMUS_CHECK(position >= 0, "positions begin at 0");
  const Mixture::Turn turn = impl_->mixture.turn(position);
  const Index n = impl_->datasets[static_cast<std::size_t>(turn.source)].info().num_samples;
  SampleRef ref{turn.source, turn.earlier / n, turn.earlier % n};
  if (ref.epoch > 0 && impl_->shuffles_epochs) {
    ref.sample = Permutation(n, impl_->seed, "epoch", fmt::format("{}/{}", ref.source, ref.epoch))(ref.sample);
  }
  return ref;
}

Index Sampler::global_sample(SampleRef ref) const { return impl_->first_global[static_cast<std::size_t>(ref.source)] + ref.sample; }
Index Sampler::samples_per_epoch() const { return impl_->first_global.back(); }

void Sampler::read(Index begin, Index end, std::span<std::int32_t> ids) const {
  const auto width = static_cast<std::size_t>(impl_->datasets.front().info().sequence_length + 1);
  OPTIMUS_CHECK(begin <= end && ids.size() == static_cast<std::size_t>(end - begin) * width, "rows and room for them differ");
  for (Index position = begin; position < end; ++position) {
    const SampleRef ref = locate(position);
    impl_->datasets[static_cast<std::size_t>(ref.source)].read_sample(ref.sample, ids.subspan(static_cast<std::size_t>(position - begin) * width, width));
  }
}

std::uint64_t sample_ids_hash(const Sampler& sampler, Index begin, Index end) {
  std::vector<Index> samples;
  for (Index position = begin; position < end; ++position) samples.push_back(sampler.global_sample(sampler.locate(position)));
  std::sort(samples.begin(), samples.end());
  return xxh64(std::as_bytes(std::span(samples)));
}

}  // namespace optimus
