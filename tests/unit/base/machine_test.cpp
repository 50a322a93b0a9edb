#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>

#include <cstring>
#include <thread>

#include "optimus/base/timer.hpp"
#include "optimus/base/topology.hpp"

namespace optimus {
namespace {

TEST(Timer, CountsSecondsSinceTheLastRestart) {
  Timer timer;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const double first = timer.seconds();
  EXPECT_GE(first, 0.02);
  timer.restart();
  EXPECT_LT(timer.seconds(), first);
}

TEST(Memory, PeakStaysWhenMemoryIsGivenBack) {
  constexpr Index kBytes = Index{64} << 20;
  const Index before = current_memory_bytes();
  void* block = mmap(nullptr, static_cast<std::size_t>(kBytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(block, MAP_FAILED);
  std::memset(block, 1, static_cast<std::size_t>(kBytes));
  munmap(block, static_cast<std::size_t>(kBytes));
  EXPECT_GE(peak_memory_bytes(), before + kBytes - (Index{1} << 20));  // the kernel counts pages in batches
  EXPECT_LT(current_memory_bytes(), before + kBytes);
}

TEST(Memory, MachineHasMoreThanThisProcess) {
  EXPECT_GT(machine_memory_bytes(), current_memory_bytes());
  EXPECT_LT(machine_memory_bytes(), Index{1} << 50);
}

TEST(Topology, FollowsTheAffinityMask) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  const Topology pinned = read_topology();
  const Index threads = usable_threads();
  sched_setaffinity(0, sizeof(before), &before);

  EXPECT_EQ(threads, 1);
  EXPECT_EQ(pinned.usable_threads, 1);
  EXPECT_EQ(pinned.usable_cores, 1);
  if (pinned.threads > 1) {
    EXPECT_EQ(pinned.bound_to, std::to_string(first));
    EXPECT_THAT(pinned.str(), testing::HasSubstr("pinned to processors " + std::to_string(first)));
  }
}

TEST(Topology, CountsAreInOrder) {
  const Topology t = read_topology();
  EXPECT_GE(t.usable_cores, 1);
  EXPECT_LE(t.usable_cores, t.cores);
  EXPECT_LE(t.usable_cores, t.usable_threads);
  EXPECT_LE(t.cores, t.threads);
  EXPECT_LE(t.sockets, t.cores);
  EXPECT_GE(t.numa_nodes, 1);
}

TEST(Topology, ReadsAsOneLine) {
  const Topology t{
      .usable_threads = 4, .usable_cores = 2, .cores = 8, .threads = 16, .sockets = 2, .numa_nodes = 1, .processor = "Some CPU", .bound_to = "0-3"};
  EXPECT_EQ(t.str(), "2 of 8 cores (Some CPU, 2 sockets, 1 NUMA node), pinned to processors 0-3");
  EXPECT_EQ(Topology{}.str(), "1 of 1 core (1 socket, 1 NUMA node), not pinned");
}

}  // namespace
}  // namespace optimus
