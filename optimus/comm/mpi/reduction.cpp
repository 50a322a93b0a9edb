#include "optimus/comm/mpi/reduction.hpp"

#include <algorithm>

#include "optimus/comm/local_reduce.hpp"
#include "optimus/comm/mpi/handle.hpp"

namespace optimus::mpi {
namespace {

constexpr Index kLineElements = 64;

/// Elements of a piece: two of them from every peer fit into the staging memory, within reason for very small and very large groups.
Index choose_piece_count(const MpiTuning& tuning, Index size, Index element_bytes) {
  const Index bytes = std::clamp<Index>(tuning.staging_bytes / (2 * std::max<Index>(1, size - 1)), 1024, Index{1} << 20);
  return std::max<Index>(1, std::min(bytes, tuning.message_bytes) / element_bytes);
}

// Slots of messages: which peer, and whether it is sent to (odd) or received from, by piece under way.
int receive_slot(Index piece) { return static_cast<int>(2 * (piece % 2)); }
int send_slot(Index member) { return static_cast<int>(2 * member + 1); }

}  // namespace

Division divide(Index count, Index size) {
  const Index part = round_up(ceil_div(count, size), kLineElements);
  Division division;
  for (Index m = 0; m <= size; ++m) division.begins.push_back(std::min(count, m * part));
  return division;
}

PartReduction::PartReduction(Channel channel, ReductionSpec spec)
    : Operation(channel),
      spec_(std::move(spec)),
      rank_(channel.group->rank()),
      size_(channel.group->size()),
      element_bytes_(dtype_bytes(spec_.input.dtype())),
      piece_count_(choose_piece_count(channel.engine->tuning(), size_, element_bytes_)),
      staging_(*channel.engine, kInFlight * size_ * piece_count_ * element_bytes_),
      num_missing_(kInFlight, 0),
      num_sends_posted_(static_cast<std::size_t>(size_), 0),
      num_sending_(static_cast<std::size_t>(size_), 0),
      sources_(static_cast<std::size_t>(size_)) {}

Index PartReduction::piece_size(Index member, Index piece) const { return std::min(piece_count_, spec_.division.count(member) - piece * piece_count_); }

std::byte* PartReduction::staged(Index piece, Index member) const {
  return staging_.data() + ((piece % kInFlight) * size_ + member) * piece_count_ * element_bytes_;
}

void PartReduction::start() {
  post_receives();
  for (Index offset = 1; offset < size_; ++offset) post_sends((rank_ + offset) % size_);
  add_arrived();
  finish_if_done();
}

void PartReduction::on_complete(int slot) {
  if (slot % 2 == 1) {
    const Index member = slot / 2;
    --num_sending_[static_cast<std::size_t>(member)];
    --num_sends_pending_;
    post_sends(member);
  } else {
    --num_missing_[static_cast<std::size_t>(slot / 2)];
    add_arrived();
  }
  finish_if_done();
}

void PartReduction::post_receives() {
  for (; num_receives_posted_ < std::min(num_pieces(rank_), num_added_ + kInFlight); ++num_receives_posted_) {
    const Index piece = num_receives_posted_;
    Index& missing = num_missing_[static_cast<std::size_t>(piece % kInFlight)];
    for (Index m = 0; m < size_; ++m) {
      if (m == rank_) continue;
      missing += post({staged(piece, m), piece_size(rank_, piece) * element_bytes_, m, false}, receive_slot(piece));
    }
  }
}

void PartReduction::post_sends(Index member) {
  const auto m = static_cast<std::size_t>(member);
  for (; num_sending_[m] < kInFlight && num_sends_posted_[m] < num_pieces(member); ++num_sends_posted_[m]) {
    const Index begin = spec_.division.begin(member) + num_sends_posted_[m] * piece_count_;
    const std::byte* data = spec_.input.data() + begin * element_bytes_;
    const Index messages = post({const_cast<std::byte*>(data), piece_size(member, num_sends_posted_[m]) * element_bytes_, member, true}, send_slot(member));
    num_sending_[m] += messages;
    num_sends_pending_ += messages;
  }
}

void PartReduction::add_arrived() {
  while (num_added_ < num_receives_posted_ && num_missing_[static_cast<std::size_t>(num_added_ % kInFlight)] == 0) {
    const Index piece = num_added_, begin = piece * piece_count_;
    for (Index m = 0; m < size_; ++m) sources_[static_cast<std::size_t>(m)] = staged(piece, m);
    sources_[static_cast<std::size_t>(rank_)] = spec_.input.data() + (spec_.division.begin(rank_) + begin) * element_bytes_;
    reduce_in_order(sources_, spec_.input.dtype(), spec_.reduce, piece_size(rank_, piece), spec_.output + begin * element_bytes_);
    ++num_added_;
    post_receives();
  }
}

void PartReduction::finish_if_done() {
  if (has_finished_ || num_added_ < num_pieces(rank_) || num_sends_pending_ > 0) return;
  for (Index m = 0; m < size_; ++m)
    if (m != rank_ && num_sends_posted_[static_cast<std::size_t>(m)] < num_pieces(m)) return;
  has_finished_ = true;
  finish();
}

}  // namespace optimus::mpi
