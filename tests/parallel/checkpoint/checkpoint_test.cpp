// Checkpoints of several ranks.
#include "optimus/checkpoint/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "optimus/checkpoint/async_writer.hpp"
#include "optimus/checkpoint/gather_lines.hpp"
#include "tests/support/checkpoint_testing.hpp"
#include "tests/support/mpi/mpi_world.hpp"

namespace optimus {
namespace {

using test::ChunkSet;
using test::world;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// One folder for all ranks, made by rank 0.
class SharedFolder {
 public:
  SharedFolder() { path_ = broadcast_text(world(), world().rank() == 0 ? own_.path().string() : "", 0); }
  ~SharedFolder() { world().barrier(); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  test::TemporaryFolder own_;
  std::filesystem::path path_;
};

ChunkSet own_part(const test::ToyState& state, const test::Layout& layout) { return test::cut(state, layout, world().rank(), world().size()); }

// The error of the class, or what came instead.
template <class Error, class Action> std::string error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::string on_rank(Index rank, const std::string& text) { return world().size() > 1 ? "rank " + std::to_string(rank) + ": " + text : text; }

TEST(ParallelCheckpoint, GathersLinesInRankOrder) {
  const std::string text = gather_lines(world(), "line of " + std::to_string(world().rank()));
  if (world().rank() != 0) return;
  std::string expected;
  for (Index r = 0; r < world().size(); ++r) expected += "line of " + std::to_string(r) + "\n";
  EXPECT_EQ(text, expected);
}

TEST(ParallelCheckpoint, EveryLayoutLoadsWhatRanksSavedTogether) {
  const SharedFolder folder;
  const test::ToyState state;
  std::string first;
  for (const auto& saved : test::layouts()) {
    write_checkpoint(world(), folder.path() / "slot-0", test::toy_info(), own_part(state, saved).chunks);
    for (const auto& loaded : test::layouts()) {
      const ChunkSet expected = own_part(state, loaded), found = expected.poisoned();
      read_checkpoint(world(), folder.path() / "slot-0", found.chunks);
      EXPECT_EQ(found.memory, expected.memory) << saved.name << " to " << loaded.name;
    }
    if (world().rank() == 0) {
      consolidate_checkpoint(folder.path() / "slot-0", folder.path() / "all");
      const std::string bytes = test::read_bytes(folder.path() / "all");
      if (first.empty()) first = bytes;
      EXPECT_EQ(bytes, first) << saved.name;
    }
    world().barrier();
  }
}

TEST(ParallelCheckpoint, ARankWithoutChunksTakesPart) {
  const SharedFolder folder;
  const test::ToyState state;
  const ChunkSet all = world().rank() == world().size() - 1 ? test::cut(state, test::layouts()[0]) : ChunkSet();
  write_checkpoint(world(), folder.path() / "c", test::toy_info(), all.chunks);
  const ChunkSet found = all.poisoned();
  read_checkpoint(world(), folder.path() / "c", found.chunks);
  EXPECT_EQ(found.memory, all.memory);
}

TEST(ParallelCheckpoint, AllRanksThrowWhatOneFoundBad) {
  const SharedFolder folder;
  const test::ToyState state;
  const Index last = world().size() - 1;
  ChunkSet set = own_part(state, test::layouts()[5]);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  if (world().rank() == last) std::memcpy(set.memory.back().data(), &nan, 4);
  const std::string message = error_of<NumericError>([&] { write_checkpoint(world(), folder.path() / "c", test::toy_info(), set.chunks); });
  EXPECT_THAT(message, AllOf(StartsWith(on_rank(last, "[checkpoint] ")), HasSubstr("has NaN or infinity")));
  EXPECT_TRUE(world().rank() != 0 || std::filesystem::is_empty(folder.path()));  // rank 0 removes what was written
}

TEST(ParallelCheckpoint, AnElementOfTwoRanksIsRefused) {
  const SharedFolder folder;
  const ChunkSet everything = test::cut(test::ToyState(), test::layouts()[0]);
  const std::string message = error_of<CheckpointError>([&] { write_checkpoint(world(), folder.path() / "c", test::toy_info(), everything.chunks); });
  if (world().size() == 1) {
    EXPECT_EQ(message, "no error");
  } else {
    EXPECT_THAT(message, AllOf(HasSubstr("held twice"), HasSubstr("rank-00000-0"), HasSubstr("rank-00001-0")));
    EXPECT_TRUE(world().rank() != 0 || std::filesystem::is_empty(folder.path()));
  }
}

TEST(ParallelCheckpoint, LoadingNamesTheProblemsOfAllRanksOnAllRanks) {
  const SharedFolder folder;
  const test::ToyState state;
  write_checkpoint(world(), folder.path() / "c", test::toy_info(), own_part(state, test::layouts()[5]).chunks);
  ChunkSet set = own_part(state, test::layouts()[5]).poisoned();
  set.chunks[0].name = "model.only-of-" + std::to_string(world().rank());
  const std::string message = error_of<CheckpointError>([&] { read_checkpoint(world(), folder.path() / "c", set.chunks); });
  for (Index r = 0; r < world().size(); ++r) EXPECT_THAT(message, HasSubstr("model.only-of-" + std::to_string(r) + " is missing"));
  for (const auto& bytes : set.memory) EXPECT_EQ(bytes.front(), std::byte{0xa5});
}

TEST(ParallelCheckpoint, BackgroundWritersFinishTogether) {
  const SharedFolder folder;
  const test::ToyState state;
  const ChunkSet set = own_part(state, test::layouts()[8]);
  AsyncCheckpointWriter writer(world());
  writer.start(folder.path() / "a", test::toy_info(1), set.chunks);
  EXPECT_EQ(writer.finish(), folder.path() / "a");
  writer.start(folder.path() / "a", test::toy_info(2), set.chunks);
  std::optional<std::filesystem::path> published;
  while (!published) published = writer.poll();
  world().barrier();
  EXPECT_EQ(inspect_checkpoint(folder.path() / "a").position.step, 2);
}

}  // namespace
}  // namespace optimus
