#pragma once
// Collectives that only move bytes: a plan of rounds, worked out before the first message, and the operation that carries it out.

#include <functional>
#include <span>
#include <vector>

#include "optimus/comm/mpi/operation.hpp"

namespace optimus::mpi {

/// Transfers in rounds: a round starts when the one before is done. Within a pair of members, messages arrive in the order of the plan.
struct Plan {
  std::vector<Transfer> transfers;
  std::vector<std::size_t> round_begins;  ///< index of the first transfer of each round

  void begin_round() { round_begins.push_back(transfers.size()); }
  void send(const std::byte* data, Index bytes, Index to) { transfers.push_back({const_cast<std::byte*>(data), bytes, to, true}); }
  void receive(std::byte* data, Index bytes, Index from) { transfers.push_back({data, bytes, from, false}); }
};

/// A member's place in its group, and how many peers it serves in a round.
struct Place {
  Index rank = 0, size = 1, peers_per_round = 16;
};

/// `sent[m]` goes to member m, `received[m]` comes from it; empty parts and the member's own are left out.
struct Part {
  std::byte* data = nullptr;
  Index bytes = 0;
};
[[nodiscard]] Plan plan_all_to_all(const Place& place, std::span<const Part> sent, std::span<const Part> received);

/// Blocks of `block_bytes` of all members into `blocks`: block j becomes that of member (rank + j) mod size. Block 0 must be there.
/// log2(size) rounds, each doubling what is there.   Source: Bruck et al. 1997, "Efficient algorithms for all-to-all communications".
[[nodiscard]] Plan plan_doubling_gather(const Place& place, std::byte* blocks, Index block_bytes);

/// `data` of `root` to all: straight from the root, or down a binomial tree.
[[nodiscard]] Plan plan_broadcast(const Place& place, std::byte* data, Index bytes, Index root, bool is_direct);
/// The same for long data: the root hands out parts, then all exchange them, so that no rank sends the whole more than about once.
[[nodiscard]] Plan plan_scattered_broadcast(const Place& place, std::byte* data, Index bytes, Index root);

/// One byte to and from everybody, or log2(size) rounds of one byte.   Source: Hensgen, Finkel, Manber 1988, dissemination barrier.
[[nodiscard]] Plan plan_barrier(const Place& place, std::byte* two_bytes, bool is_direct);

class Exchange final : public Operation {
 public:
  /// `at_end` runs once after the last round.
  Exchange(Channel channel, Plan plan, std::function<void()> at_end = {}) : Operation(channel), plan_(std::move(plan)), at_end_(std::move(at_end)) {}
  void start() override { run_rounds(); }
  void on_complete(int slot) override;

 private:
  void run_rounds();
  Plan plan_;
  std::function<void()> at_end_;
  std::size_t next_round_ = 0;
  Index num_pending_ = 0;
};

}  // namespace optimus::mpi
