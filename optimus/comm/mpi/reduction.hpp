#pragma once
// The sum of parts over a group, each part at its owner, in member order.

#include <vector>

#include "optimus/comm/communicator.hpp"
#include "optimus/comm/mpi/engine.hpp"
#include "optimus/comm/mpi/operation.hpp"

namespace optimus::mpi {

/// How a vector is divided among the members: member m owns elements [begins[m], begins[m+1]).
struct Division {
  std::vector<Index> begins;
  [[nodiscard]] Index count(Index m) const { return begins[static_cast<std::size_t>(m) + 1] - begins[static_cast<std::size_t>(m)]; }
  [[nodiscard]] Index begin(Index m) const { return begins[static_cast<std::size_t>(m)]; }
};
/// `size` parts as equal as whole cache lines allow; the last may be shorter or empty.
[[nodiscard]] Division divide(Index count, Index size);

/// What is reduced, and where the own part of the result goes (it may be that part of `input`).
struct ReductionSpec {
  ConstView input;
  Division division;
  std::byte* output = nullptr;
  Reduce reduce = Reduce::kSum;
};

/// Every member sends each other one its part, in pieces, and adds the pieces of its own part once they are there from everybody:
/// always 0 + 1 + 2 + …, whatever came first. Two pieces are under way at a time, in memory bounded by MpiTuning::staging_bytes.
class PartReduction final : public Operation {
 public:
  PartReduction(Channel channel, ReductionSpec spec);
  void start() override;
  void on_complete(int slot) override;

 private:
  static constexpr Index kInFlight = 2;
  [[nodiscard]] Index num_pieces(Index member) const { return ceil_div(spec_.division.count(member), piece_count_); }
  [[nodiscard]] Index piece_size(Index member, Index piece) const;
  [[nodiscard]] std::byte* staged(Index piece, Index member) const;
  void post_receives();
  void post_sends(Index member);
  void add_arrived();
  void finish_if_done();

  ReductionSpec spec_;
  Index rank_, size_, element_bytes_, piece_count_;
  Staging staging_;
  Index num_receives_posted_ = 0;  ///< pieces of the own part
  Index num_added_ = 0;
  std::vector<Index> num_missing_;       ///< [kInFlight] messages still to come for a piece under way
  std::vector<Index> num_sends_posted_;  ///< [size] pieces of each member's part
  std::vector<Index> num_sending_;       ///< [size] messages under way to each member
  Index num_sends_pending_ = 0;
  bool has_finished_ = false;
  std::vector<const std::byte*> sources_;
};

}  // namespace optimus::mpi
