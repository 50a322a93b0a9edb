#include "optimus/tensor/arena.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <utility>

namespace optimus {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::uintptr_t address(const std::byte* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

TEST(Buffer, IsAlignedForVectorsAndHugePages) {
  const Buffer small(100), large(Index{3} << 20);
  EXPECT_EQ(address(small.data()) % 64, 0U);
  EXPECT_EQ(address(large.data()) % (2U << 20), 0U);
  large.data()[(3 << 20) - 1] = std::byte{1};
  EXPECT_EQ(Buffer(0).data(), nullptr);
}

TEST(Buffer, MovesItsMemory) {
  Buffer first(64);
  const std::byte* data = first.data();
  Buffer second(std::move(first));
  Buffer third;
  third = std::move(second);
  EXPECT_EQ(third.data(), data);
  EXPECT_EQ(third.bytes(), 64);
}

TEST(Buffer, NamesTheSizeThatDoesNotFit) {
  try {
    const Buffer buffer(std::numeric_limits<Index>::max() / 2);
    FAIL() << "four exbibytes were found";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("no memory for 4611686018427387903 bytes"), HasSubstr("GiB")));
  }
}

TEST(Arena, HandsOutAlignedTensorsThatDoNotOverlap) {
  Arena arena(1024);
  const View a = arena.alloc(DType::kU8, {3}), b = arena.alloc(DType::kF32, {16}), empty = arena.alloc(DType::kF32, {0, 8}), c = arena.like(b);
  EXPECT_EQ(address(a.data()) % 64, 0U);
  EXPECT_EQ(b.data() - a.data(), 64);
  EXPECT_EQ(empty.data() - b.data(), 64);
  EXPECT_EQ(c.data(), empty.data());
  EXPECT_EQ(c.shape(), b.shape());
  EXPECT_EQ(arena.used(), 192);
}

TEST(Arena, NamesWhatDoesNotFitThePlan) {
  Arena arena(128);
  (void)arena.alloc(DType::kF32, {16});
  try {
    (void)arena.alloc(DType::kF32, {17});
    FAIL() << "more than the plan was handed out";
  } catch (const InternalError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("f32 [17] needs 128 bytes"), HasSubstr("64 of 128 are left")));
  }
}

TEST(Arena, GivesTheSameMemoryAgainAfterAScope) {
  Arena arena(1024);
  const std::byte* first = nullptr;
  {
    Scratch scratch(arena);
    first = scratch.alloc(DType::kF32, {32}).data();
    Scratch inner(arena);
    (void)inner.alloc(DType::kF32, {64});
  }
  EXPECT_EQ(arena.used(), 0);
  EXPECT_EQ(arena.peak(), 384);
  EXPECT_EQ(arena.alloc(DType::kF32, {1}).data(), first);
}

TEST(Arena, MeasuringCountsWithoutMemory) {
  Arena measuring = Arena::measuring();
  EXPECT_TRUE(measuring.is_measuring());
  {
    Scratch scratch(measuring);
    const View huge = scratch.alloc(DType::kBF16, {Index{1} << 30, 1 << 10});
    EXPECT_EQ(huge.bytes(), Index{1} << 41);
    EXPECT_EQ(address(huge.data()) % 64, 0U);
    EXPECT_NE(scratch.like(huge).data(), huge.data());
  }
  EXPECT_EQ(measuring.peak(), Index{1} << 42);
  EXPECT_EQ(measuring.used(), 0);
  EXPECT_EQ(measuring.capacity(), 0);
}

TEST(ArenaDeathTest, TouchingMeasuredMemoryFaults) {
  Arena measuring = Arena::measuring();
  const View view = measuring.alloc(DType::kF32, {4});
  EXPECT_DEATH(view.as<float>()[0] = 1.0F, "");
}

TEST(Arena, NeedsExactlyWhatMeasuringFound) {
  const auto run = [](Arena& arena) {
    const Scratch outer(arena);
    const View x = arena.alloc(DType::kBF16, {7, 5});
    const Scratch inner(arena);
    (void)arena.like(x);
    (void)arena.alloc(DType::kF64, {13});
  };
  Arena measuring = Arena::measuring();
  run(measuring);
  Arena exact(measuring.peak());
  run(exact);
  EXPECT_EQ(exact.peak(), measuring.peak());
  Arena short_of_one(measuring.peak() - 1);
  EXPECT_THROW(run(short_of_one), InternalError);
}

}  // namespace
}  // namespace optimus
