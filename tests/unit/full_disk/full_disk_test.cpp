// A disk that is really full: a file system of 256 KiB that only this process sees.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include "optimus/base/file.hpp"

namespace optimus {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// From here on this process has mounts of its own, which end with it.
void mount_small_disk(const fs::path& folder) {
  const bool is_root = geteuid() == 0;
  ASSERT_EQ(unshare(is_root ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER), 0);
  ASSERT_EQ(mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
  ASSERT_EQ(mount("none", folder.c_str(), "tmpfs", 0, "size=256k"), 0);
}

TEST(FullDisk, LosesNothingAndLeavesNoPartialFile) {
  const fs::path folder = fs::temp_directory_path() / ("optimus-full-disk-" + std::to_string(getpid()));
  fs::create_directory(folder);
  mount_small_disk(folder);
  ASSERT_EQ(free_bytes(folder), 256 << 10);

  write_file_atomically(folder / "a", "old");
  try {
    write_file_atomically(folder / "a", std::string(1 << 20, 'x'));
    ADD_FAILURE() << "a megabyte fitted into 256 KiB";
  } catch (const FileError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr((folder / "a").string()), HasSubstr("No space left on device")));
    EXPECT_EQ(e.code(), ExitCode::kFailure);
  }
  EXPECT_EQ(read_file(folder / "a"), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);

  EXPECT_EQ(umount(folder.c_str()), 0);
  fs::remove(folder);
}

}  // namespace
}  // namespace optimus
