// Plans of many members carried out by copying, without MPI: sizes that no test machine can start.
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <map>

#include "optimus/comm/mpi/exchange.hpp"

namespace optimus::mpi {
namespace {

constexpr Index kSizes[] = {1, 2, 3, 7, 16, 37};

/// Runs everybody's plan at once, as messages would: a round goes on when its receives are there. False if it comes to a standstill.
bool run(const std::vector<Plan>& plans) {
  const std::size_t size = plans.size();
  std::map<std::pair<Index, Index>, std::deque<std::vector<std::byte>>> wires;
  std::vector<std::size_t> next(size, 0);
  const auto round_of = [&](std::size_t m, std::size_t r) {
    const auto& begins = plans[m].round_begins;
    const std::size_t end = r + 1 < begins.size() ? begins[r + 1] : plans[m].transfers.size();
    return std::span(plans[m].transfers).subspan(begins[r], end - begins[r]);
  };
  std::vector<bool> has_sent(size, false);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t m = 0; m < size; ++m) {
      if (next[m] >= plans[m].round_begins.size()) continue;
      const auto transfers = round_of(m, next[m]);
      if (!has_sent[m]) {
        for (const Transfer& t : transfers)
          if (t.is_send) wires[{static_cast<Index>(m), t.member}].emplace_back(t.data, t.data + t.bytes);
        has_sent[m] = moved = true;
      }
      bool is_complete = true;
      std::map<Index, std::size_t> wanted;
      for (const Transfer& t : transfers)
        if (!t.is_send) is_complete = is_complete && wires[{t.member, static_cast<Index>(m)}].size() >= ++wanted[t.member];
      if (!is_complete) continue;
      for (const Transfer& t : transfers) {
        if (t.is_send) continue;
        auto& wire = wires[{t.member, static_cast<Index>(m)}];
        EXPECT_EQ(static_cast<Index>(wire.front().size()), t.bytes);
        std::memcpy(t.data, wire.front().data(), wire.front().size());
        wire.pop_front();
      }
      has_sent[m] = false;
      ++next[m];
      moved = true;
    }
  }
  for (std::size_t m = 0; m < size; ++m)
    if (next[m] < plans[m].round_begins.size()) return false;
  for (const auto& [ends, wire] : wires) EXPECT_TRUE(wire.empty()) << ends.first << " to " << ends.second;
  return true;
}

using Bytes = std::vector<std::byte>;
std::byte byte_of(Index value) { return static_cast<std::byte>(value & 0xff); }

TEST(Plans, BroadcastReachesAllFromEveryRoot) {
  for (const Index size : kSizes)
    for (const int kind : {0, 1, 2})
      for (Index root = 0; root < size; root += 5) {
        std::vector<Bytes> data(static_cast<std::size_t>(size), Bytes(101));
        for (Index i = 0; i < 101; ++i) data[static_cast<std::size_t>(root)][static_cast<std::size_t>(i)] = byte_of(i + 1);
        std::vector<Plan> plans;
        for (Index m = 0; m < size; ++m) {
          std::byte* mine = data[static_cast<std::size_t>(m)].data();
          const Place place{m, size, 3};
          plans.push_back(kind == 2 ? plan_scattered_broadcast(place, mine, 101, root) : plan_broadcast(place, mine, 101, root, kind == 1));
        }
        ASSERT_TRUE(run(plans)) << size << " members, root " << root;
        for (const Bytes& got : data) EXPECT_EQ(got, data[static_cast<std::size_t>(root)]);
      }
}

TEST(Plans, DoublingGatherCollectsAllBlocksInLogarithmicRounds) {
  for (const Index size : kSizes) {
    std::vector<Bytes> blocks(static_cast<std::size_t>(size), Bytes(static_cast<std::size_t>(2 * size)));
    std::vector<Plan> plans;
    for (Index m = 0; m < size; ++m) {
      Bytes& mine = blocks[static_cast<std::size_t>(m)];
      mine[0] = mine[1] = byte_of(m);
      plans.push_back(plan_doubling_gather({m, size, 16}, mine.data(), 2));
      EXPECT_LE(Index{1} << plans.back().round_begins.size(), 2 * size);
    }
    ASSERT_TRUE(run(plans));
    for (Index m = 0; m < size; ++m)
      for (Index j = 0; j < size; ++j) EXPECT_EQ(blocks[static_cast<std::size_t>(m)][static_cast<std::size_t>(2 * j + 1)], byte_of((m + j) % size));
  }
}

TEST(Plans, AllToAllDeliversEveryPairInBoundedRounds) {
  for (const Index size : kSizes) {
    const auto length = [](Index a, Index b) { return (a * 3 + b * 5) % 4; };
    std::vector<Bytes> out(static_cast<std::size_t>(size)), in(static_cast<std::size_t>(size));
    std::vector<Plan> plans;
    for (Index m = 0; m < size; ++m) {
      Bytes &sent = out[static_cast<std::size_t>(m)], &received = in[static_cast<std::size_t>(m)];
      sent.assign(static_cast<std::size_t>(4 * size), byte_of(m));
      received.assign(static_cast<std::size_t>(4 * size), byte_of(255));
      std::vector<Part> send_parts, receive_parts;
      for (Index p = 0; p < size; ++p) {
        send_parts.push_back({sent.data() + 4 * p, length(m, p)});
        receive_parts.push_back({received.data() + 4 * p, length(p, m)});
      }
      plans.push_back(plan_all_to_all({m, size, 5}, send_parts, receive_parts));
    }
    ASSERT_TRUE(run(plans));
    for (Index m = 0; m < size; ++m)
      for (Index p = 0; p < size; ++p)
        for (Index i = 0; i < 4; ++i)
          EXPECT_EQ(in[static_cast<std::size_t>(m)][static_cast<std::size_t>(4 * p + i)], byte_of(p != m && i < length(p, m) ? p : 255));
  }
}

TEST(Plans, BarrierEndsOnlyWhenAllHaveCome) {
  for (const Index size : {2, 3, 7, 16, 37})
    for (const bool is_direct : {true, false}) {
      std::vector<std::byte> bytes(static_cast<std::size_t>(2 * size));
      std::vector<Plan> plans;
      for (Index m = 0; m < size; ++m) plans.push_back(plan_barrier({m, size, 16}, bytes.data() + 2 * m, is_direct));
      EXPECT_TRUE(run(plans));
      // Without any one member nobody else gets through.
      std::vector<Plan> without = plans;
      without[static_cast<std::size_t>(size / 2)] = Plan{};
      EXPECT_FALSE(run(without));
    }
}

}  // namespace
}  // namespace optimus::mpi
