// A disk that fills up while a checkpoint is being written, at every place of it: the old one stays whole, nothing of the new one stays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include "optimus/base/file.hpp"
#include "optimus/checkpoint/checkpoint.hpp"
#include "optimus/checkpoint/store.hpp"
#include "optimus/checkpoint/write_job.hpp"
#include "optimus/comm/self/self.hpp"
#include "tests/support/checkpoint_testing.hpp"

namespace optimus {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

constexpr Index kPage = 4096;

class DiskFull : public testing::Test {
 protected:
  // A file system of 4 MiB that only this process sees, from here to its end.
  void SetUp() override {
    const bool is_root = geteuid() == 0;
    ASSERT_EQ(unshare(is_root ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER), 0);
    ASSERT_EQ(mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
    ASSERT_EQ(mount("none", folder.path().c_str(), "tmpfs", 0, "size=4m"), 0);
  }
  void TearDown() override { umount(folder.path().c_str()); }

  test::TemporaryFolder folder;
  std::filesystem::path slot = folder.path() / "slot-0", filler = folder.path() / "filler";
  std::unique_ptr<Communicator> world = make_self_communicator();
  test::ToyState state;
};

TEST_F(DiskFull, AnywhereLeavesTheOldCheckpointWhole) {
  state.add("model.large", DType::kF32, {9, 1024}, 0);  // nine pages
  const test::ChunkSet set = test::cut(state, test::layouts()[0]);
  write_checkpoint(*world, slot, test::toy_info(1), set.chunks);
  const std::string manifest = test::read_bytes(slot / "manifest.json");
  Index failures = 0, pages = 0;
  for (bool is_written = false; !is_written; ++pages) {
    ASSERT_LT(pages, 100);
    WriteJob job(*world, slot, test::toy_info(2), 6000);
    job.prepare(set.chunks);
    // After the free space was looked at somebody else takes all but some pages of it.
    const Index rest = free_bytes(folder.path()) - pages * kPage;
    test::write_bytes(filler, std::string(static_cast<std::size_t>(rest), 'x'));
    job.write_files(set.chunks);
    try {
      job.gather();
      job.publish([] {});
      job.finish();
      is_written = true;
    } catch (const FileError& error) {
      ++failures;
      EXPECT_THAT(error.what(), AllOf(HasSubstr(folder.path().string()), HasSubstr("No space left on device"))) << pages;
      ASSERT_EQ(test::read_bytes(slot / "manifest.json"), manifest) << pages;
      ASSERT_TRUE(verify_checkpoint(slot).empty()) << pages;
      ASSERT_FALSE(std::filesystem::exists(folder.path() / ".slot-0.writing")) << pages;
    }
    std::filesystem::remove(filler);
  }
  EXPECT_GT(failures, 12) << "each page of the files, and the manifest's";
  EXPECT_EQ(inspect_checkpoint(slot).position.step, 2);
  EXPECT_TRUE(verify_checkpoint(slot).empty());
}

TEST_F(DiskFull, IsNoticedBeforeAnythingIsWritten) {
  const test::ChunkSet set = test::cut(state, test::layouts()[0]);
  write_checkpoint(*world, slot, test::toy_info(1), set.chunks);
  test::write_bytes(filler, std::string(static_cast<std::size_t>(free_bytes(folder.path()) - 100 * kPage), 'x'));
  try {
    write_checkpoint(*world, slot, test::toy_info(2), set.chunks);
    ADD_FAILURE() << "written";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("slot-0"), HasSubstr("free; make room")));
  }
  EXPECT_EQ(inspect_checkpoint(slot).position.step, 1);
}

// The file that says which is the newest is written last; without room for it the run finds the newest by what the slots say themselves.
TEST_F(DiskFull, DoesNotLoseTheNewestForWantOfItsName) {
  const CheckpointStore store(folder.path());
  const test::ChunkSet set = test::cut(state, test::layouts()[0]);
  for (Index step = 1; step <= 3; ++step) {
    const auto next = store.next_slot();
    write_checkpoint(*world, next, test::toy_info(step), set.chunks);
    test::write_bytes(filler, std::string(static_cast<std::size_t>(free_bytes(folder.path())), 'x'));
    EXPECT_THROW(store.publish_latest(next), FileError);
    EXPECT_EQ(find_checkpoint(folder.path()).position.step, step);
    std::filesystem::remove(filler);
  }
}

}  // namespace
}  // namespace optimus
