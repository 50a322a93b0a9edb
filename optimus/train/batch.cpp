#include "optimus/train/batch.hpp"

#include <algorithm>

#include "optimus/base/check.hpp"
#include "optimus/ops/loss.hpp"

namespace optimus {

Batch::Batch(Index rows, Index sequence_length, Index ignored_input)
    : sequence_length_(sequence_length),
      ignored_input_(ignored_input),
      ids_(static_cast<std::size_t>(rows * (sequence_length + 1))),
      inputs_(static_cast<std::size_t>(rows * sequence_length)),
      labels_(static_cast<std::size_t>(rows * sequence_length)) {}

Index Batch::bytes(Index rows, Index sequence_length) { return rows * (3 * sequence_length + 1) * static_cast<Index>(sizeof(std::int32_t)); }

void Batch::read(const Sampler& sampler, Index begin, Index rows) {
  rows_ = rows;
  sampler.read(begin, begin + rows, std::span(ids_).first(static_cast<std::size_t>(rows * (sequence_length_ + 1))));
  split();
}

void Batch::pad(Index rows) {
  const auto width = static_cast<std::size_t>(sequence_length_);
  OPTIMUS_CHECK(rows >= rows_ && static_cast<std::size_t>(rows) * width <= inputs_.size(), "no more rows than planned");
  std::fill(inputs_.begin() + static_cast<std::ptrdiff_t>(rows_ * sequence_length_), inputs_.begin() + static_cast<std::ptrdiff_t>(rows * sequence_length_), 0);
  std::fill(labels_.begin() + static_cast<std::ptrdiff_t>(rows_ * sequence_length_), labels_.begin() + static_cast<std::ptrdiff_t>(rows * sequence_length_),
            ops::kIgnoredLabel);
  rows_ = rows;
}

std::function<MicroBatch(Index)> Batch::micro_batches(Index size) const {
  return [this, size](Index m) { return rows(m * size, (m + 1) * size); };
}

void Batch::set(std::span<const std::int32_t> ids) {
  OPTIMUS_CHECK(ids.size() <= ids_.size() && ids.size() % static_cast<std::size_t>(sequence_length_ + 1) == 0, "a batch of whole rows, not more than planned");
  rows_ = static_cast<Index>(ids.size()) / (sequence_length_ + 1);
  std::copy(ids.begin(), ids.end(), ids_.begin());
  split();
}

void Batch::split() {
  valid_labels_ = 0;
  for (Index row = 0; row < rows_; ++row) {
    const std::int32_t* ids = ids_.data() + row * (sequence_length_ + 1);
    for (Index i = 0; i < sequence_length_; ++i) {
      const auto at = static_cast<std::size_t>(row * sequence_length_ + i);
      inputs_[at] = ids[i];
      labels_[at] = ids[i] == ignored_input_ ? ops::kIgnoredLabel : ids[i + 1];
      valid_labels_ += labels_[at] != ops::kIgnoredLabel ? 1 : 0;
    }
  }
}

MicroBatch Batch::rows(Index begin, Index end) const {
  const auto first = static_cast<std::size_t>(begin * sequence_length_), count = static_cast<std::size_t>((end - begin) * sequence_length_);
  return {.sequences = end - begin,
          .sequence_length = sequence_length_,
          .inputs = std::span(inputs_).subspan(first, count),
          .labels = std::span(labels_).subspan(first, count)};
}

}  // namespace optimus
