#pragma once
// The rows of a global batch that one rank computes.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "optimus/data/sampler.hpp"
#include "optimus/model/transformer.hpp"

namespace optimus {

/// Rows [first_row, first_row + rows) of a global batch, in memory that is reused from step to step.
class Batch {
 public:
  /// `ignored_input`: inputs with this id have no loss (the end of a document under mask_document_boundaries), or -1.
  Batch(Index rows, Index sequence_length, Index ignored_input);

  /// Reads positions [begin, begin + rows) of the endless order, rows <= the number given at construction.
  /// Errors: DataError naming file and place for an id outside the vocabulary.
  void read(const Sampler& sampler, Index begin, Index rows);
  /// Appends rows without labels until there are `rows`: for ranks that have to compute with others but have nothing left.
  void pad(Index rows);
  /// Ids given by the caller, [rows, S+1].
  void set(std::span<const std::int32_t> ids);

  [[nodiscard]] Index rows() const { return rows_; }
  [[nodiscard]] Index sequence_length() const { return sequence_length_; }
  /// Labels of these rows that have a loss.
  [[nodiscard]] Index valid_labels() const { return valid_labels_; }
  /// Rows [begin, end) of these.
  [[nodiscard]] MicroBatch rows(Index begin, Index end) const;
  /// These rows in micro-batches of `size`: which micro-batch → its rows. For as long as this batch is not read anew.
  [[nodiscard]] std::function<MicroBatch(Index)> micro_batches(Index size) const;
  /// The ids as read, [rows, S+1].
  [[nodiscard]] std::span<const std::int32_t> ids() const { return std::span(ids_).first(static_cast<std::size_t>(rows_ * (sequence_length_ + 1))); }
  /// Bytes kept.
  [[nodiscard]] static Index bytes(Index rows, Index sequence_length);

 private:
  void split();
  Index rows_ = 0, sequence_length_, ignored_input_, valid_labels_ = 0;
  std::vector<std::int32_t> ids_, inputs_, labels_;
};

}  // namespace optimus
