// Rows travel in memory that was laid out before. This program counts the calls of malloc and its relatives that ask for as much as rows need; the few words that a
// transport keeps of a message under way are less.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>

#include "tests/support/malloc_hooks.hpp"
#include "tests/support/mpi/mpi_world.hpp"
#include "tests/support/split_model.hpp"

namespace {
constexpr std::size_t kRowsBytes = 4096;
std::atomic<long> allocations{0};
}  // namespace

void count_allocation(std::size_t bytes) {
  if (bytes >= kRowsBytes) allocations.fetch_add(1, std::memory_order_relaxed);
}

namespace optimus::test {
namespace {

/// Of the one with the fewest among five micro-batches of changing rows, after three: a pool of the MPI library may grow now and then, whoever is late; rows would
/// be in every one.
long allocations_in_steady_state(const TransformerOptions& options) {
  SplitModel model(options, {.tp = 1, .ep = world().size()}, "cpu_one_thread");
  std::vector<Rows> rows;
  std::vector<LossScale> scales;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    rows.push_back(random_rows(options.model, 2 * options.micro_batch, options.sequence_length, seed));
    rows.back() = model.own_rows(rows.back());
    scales.push_back(scale_of(rows.back()));
  }
  long fewest = std::numeric_limits<long>::max();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const long before = allocations.load();
    (void)model.transformer().forward_backward(rows[i].batch(), scales[i], {});
    if (i >= 3) fewest = std::min(fewest, allocations.load() - before);
  }
  return fewest;
}

TEST(AllocationsOfRows, AreCountedHere) {
  const long before = allocations.load();
  const std::vector<std::byte> some(kRowsBytes);
  EXPECT_EQ(allocations.load(), before + 1) << some.size();
}

TEST(AllocationsOfRows, DoNotHappenInTheSteadyState) {
  TransformerOptions options{.model = small_moe(), .moe = {}, .recompute = {}, .micro_batch = 4, .sequence_length = 64, .layers = std::nullopt};
  options.model.num_experts = 2;
  options.model.hidden_size = 24;
  for (const char* dispatcher : {"all_gather", "all_to_all"}) {
    for (const char* implementation : {"fast", "reference"}) {
      options.moe.dispatcher = dispatcher;
      options.moe.implementation = implementation;
      options.recompute.moe = !options.recompute.moe;
      EXPECT_EQ(allocations_in_steady_state(options), 0) << dispatcher << ", " << implementation;
    }
  }
}

}  // namespace
}  // namespace optimus::test
