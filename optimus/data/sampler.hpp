#pragma once
// Which samples a step sees: the endless order epoch 0, epoch 1, … of one or several weighted sources.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "optimus/config/field.hpp"
#include "optimus/data/dataset.hpp"

namespace optimus {

/// One corpus of a mixture.
struct SourceConfig {
  std::string path;
  double weight = 1.0;
};
template <class Visitor> void describe(Visitor& v, SourceConfig& c) {
  v.field("path", c.path, "A prepared folder.");
  v.field("weight", c.weight, "Its share of the samples, relative to the other sources' weights.", above(0.0));
}

/// `[data]`.
struct DataConfig {
  std::string path;
  std::vector<SourceConfig> sources;
  Index sequence_length = 2048;
  bool shuffle_epochs = true;
  bool mask_document_boundaries = false;
  std::string validation;
  Index validation_interval = 0;
};
template <class Visitor> void describe(Visitor& v, DataConfig& c) {
  v.field("path", c.path, "A folder made by `optimus prepare`.");
  v.array("sources", c.sources, "Several prepared folders with weights, instead of path.");
  v.field("sequence_length", c.sequence_length, "Tokens of a sequence, S; that of the prepared folder.", at_least(1));
  v.field("shuffle_epochs", c.shuffle_epochs, "Reshuffle the order of samples in later epochs.");
  v.field("mask_document_boundaries", c.mask_document_boundaries, "No loss where the input is the end of a document.");
  v.field("validation", c.validation, "A prepared folder for the validation loss.");
  v.field("validation_interval", c.validation_interval, "Steps between validations; 0: never.", at_least(0));
}

/// Where a sample of the endless order lies.
struct SampleRef {
  Index source = 0;
  Index epoch = 0;
  Index sample = 0;
};

/// The endless order. A value of (datasets, weights, seed): position p always gives the same sample, whatever the layout or the batch size.
///
/// One source: position p is sample perm_epoch(p mod N) of epoch p / N. Epoch 0 is the stored (already shuffled) order; later epochs are a
/// pseudo-random permutation of (seed, epoch) evaluated in O(1) time and memory, or the stored order again without `shuffle_epochs`.
/// Several: sources take turns so that after any p each has had its share to within one sample (see mixture.hpp: weights are
/// taken as whole shares of at most 65,536); within a source as above.
class Sampler {
 public:
  /// Errors: DataError naming both folders if vocabularies, tokenizers, ends of documents or sequence lengths differ, or naming the one
  /// whose sequence length is not the configured one or that holds no sample; ConfigError for no source, or path and sources both.
  Sampler(const DataConfig& config, std::uint64_t seed);
  ~Sampler();
  Sampler(Sampler&&) noexcept;

  [[nodiscard]] const std::vector<Dataset>& datasets() const;
  [[nodiscard]] SampleRef locate(Index position) const;
  /// A number that names the sample across sources and is the same in every epoch: (samples of earlier sources) + sample.
  [[nodiscard]] Index global_sample(SampleRef ref) const;
  /// Samples in one pass over all sources.
  [[nodiscard]] Index samples_per_epoch() const;
  /// Epoch that position p belongs to, for the metrics: of one source p / N; of several, that of the position's own source.
  [[nodiscard]] Index epoch(Index position) const { return locate(position).epoch; }

  /// Rows [begin, end) of the endless order as ids [end - begin, S+1].
  void read(Index begin, Index end, std::span<std::int32_t> ids) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// xxh64 over the sorted global sample numbers of positions [begin, end), as little-endian 64-bit integers: metrics' `sample_ids_hash`.
[[nodiscard]] std::uint64_t sample_ids_hash(const Sampler& sampler, Index begin, Index end);

}  // namespace optimus
