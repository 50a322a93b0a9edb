#include "optimus/checkpoint/async_writer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <thread>

#include "optimus/comm/self/self.hpp"
#include "tests/support/checkpoint_testing.hpp"

namespace optimus {
namespace {

using test::ChunkSet;

class AsyncCheckpointWriterTest : public testing::Test {
 protected:
  test::TemporaryFolder folder;
  std::filesystem::path slot = folder.path() / "slot-0";
  std::unique_ptr<Communicator> world = make_self_communicator();
  ChunkSet set = test::cut(test::ToyState(), test::layouts()[7]);
};

TEST_F(AsyncCheckpointWriterTest, SavesTheStateAsItWasAtTheStart) {
  const ChunkSet expected = test::cut(test::ToyState(), test::layouts()[7]);
  AsyncCheckpointWriter writer(*world);
  EXPECT_FALSE(writer.is_busy());
  EXPECT_EQ(writer.finish(), std::nullopt);
  writer.start(slot, test::toy_info(), set.chunks);
  for (auto& bytes : set.memory) std::fill(bytes.begin(), bytes.end(), std::byte{0xff});  // training goes on
  EXPECT_TRUE(writer.is_busy());
  EXPECT_EQ(writer.finish(), slot);
  EXPECT_FALSE(writer.is_busy());
  read_checkpoint(*world, slot, set.chunks);
  EXPECT_EQ(set.memory, expected.memory);
}

TEST_F(AsyncCheckpointWriterTest, PublishesInPollOnceWritten) {
  AsyncCheckpointWriter writer(*world);
  for (Index step = 1; step <= 3; ++step) {
    writer.start(slot, test::toy_info(step), set.chunks);
    std::optional<std::filesystem::path> published;
    for (int i = 0; i < 10000 && !published; ++i) {
      published = writer.poll();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_EQ(published, slot);
    EXPECT_EQ(inspect_checkpoint(slot).position.step, step);
  }
  EXPECT_EQ(writer.poll(), std::nullopt);
}

TEST_F(AsyncCheckpointWriterTest, TellsInFinishWhatWentWrongAndGoesOn) {
  AsyncCheckpointWriter writer(*world);
  const std::vector<std::byte> good = set.memory.front();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const BFloat16 narrow_nan(nan);
  std::memcpy(set.memory.front().data(), &narrow_nan, 2);
  writer.start(slot, test::toy_info(1), set.chunks);
  EXPECT_THROW((void)writer.finish(), NumericError);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  set.memory.front() = good;
  set.chunks.front().data = View(set.memory.front().data(), set.chunks.front().data.dtype(), set.chunks.front().data.shape());
  writer.start(slot, test::toy_info(2), set.chunks);
  EXPECT_EQ(writer.finish(), slot);
}

TEST_F(AsyncCheckpointWriterTest, PublishesNothingWhenGivenUp) {
  {
    AsyncCheckpointWriter writer(*world);
    writer.start(slot, test::toy_info(1), set.chunks);
  }
  EXPECT_FALSE(std::filesystem::exists(slot));
  AsyncCheckpointWriter writer(*world);
  writer.start(slot, test::toy_info(2), set.chunks);
  EXPECT_THROW(writer.start(slot, test::toy_info(3), set.chunks), InternalError);
  EXPECT_EQ(writer.finish(), slot);
}

TEST_F(AsyncCheckpointWriterTest, CallsBackOnceTheCheckpointIsInItsPlace) {
  AsyncCheckpointWriter writer(*world);
  Index found = 0;
  writer.start(slot, test::toy_info(7), set.chunks, [&] { found = inspect_checkpoint(slot).position.step; });
  EXPECT_EQ(writer.finish(), slot);
  EXPECT_EQ(found, 7);
}

TEST_F(AsyncCheckpointWriterTest, CountsWhatTheCallThrowsAsAnErrorOfTheWrite) {
  AsyncCheckpointWriter writer(*world);
  writer.start(slot, test::toy_info(7), set.chunks, [] { throw FileError("no place for its name"); });
  EXPECT_THROW((void)writer.finish(), FileError);
  EXPECT_EQ(inspect_checkpoint(slot).position.step, 7) << "what is whole stays";
  writer.start(slot, test::toy_info(8), set.chunks);
  EXPECT_EQ(writer.finish(), slot);
}

TEST_F(AsyncCheckpointWriterTest, SaysHowMuchMemoryItTakes) {
  EXPECT_EQ(AsyncCheckpointWriter::buffer_bytes({}), 0);
  Index bytes = 0;
  for (const Chunk& chunk : set.chunks) bytes += chunk.data.bytes();
  EXPECT_GE(AsyncCheckpointWriter::buffer_bytes(set.chunks), bytes);
  EXPECT_LE(AsyncCheckpointWriter::buffer_bytes(set.chunks), bytes + 64 * static_cast<Index>(set.chunks.size()));
}

}  // namespace
}  // namespace optimus
