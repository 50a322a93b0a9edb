#include "optimus/base/file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <fstream>

#include "temporary_folder.hpp"

namespace optimus {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

template <class Action>
std::string file_error_of(Action action) {
  try {
    action();
    return "";
  } catch (const FileError& e) {
    return e.what();
  }
}

TEST(AtomicFile, AppearsOnlyWhenCommitted) {
  const TemporaryFolder folder;
  AtomicFile file(folder / "a");
  file.write("hello ");
  file.write(bytes_of("world"));
  EXPECT_EQ(file.size(), 11);
  EXPECT_FALSE(fs::exists(folder / "a"));
  file.commit();
  EXPECT_EQ(read_file(folder / "a"), "hello world");
  EXPECT_EQ(folder.num_entries(), 1);
}

TEST(AtomicFile, KeepsTheOldFileUntilTheNewOneIsWhole) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "a", "old");
  {
    AtomicFile file(folder / "a");
    file.write("half of the n");
    EXPECT_EQ(read_file(folder / "a"), "old");
  }
  EXPECT_EQ(read_file(folder / "a"), "old");
  EXPECT_EQ(folder.num_entries(), 1) << "the abandoned half was left behind";
  write_file_atomically(folder / "a", "new");
  EXPECT_EQ(read_file(folder / "a"), "new");
}

TEST(AtomicFile, OverwritesAHeaderThatIsKnownLast) {
  const TemporaryFolder folder;
  AtomicFile file(folder / "a");
  file.write("????body");
  file.write_at(0, bytes_of("head"));
  file.write(" end");
  EXPECT_THROW(file.write_at(10, bytes_of("toolong")), InternalError);
  file.commit();
  EXPECT_EQ(read_file(folder / "a"), "headbody end");
  EXPECT_THROW(file.write("more"), InternalError);
  EXPECT_THROW(file.commit(), InternalError);
}

TEST(AtomicFile, MovesWithItsContents) {
  const TemporaryFolder folder;
  AtomicFile first(folder / "a");
  first.write("x");
  AtomicFile second(std::move(first));
  second.write("y");
  second.commit();
  EXPECT_EQ(read_file(folder / "a"), "xy");
}

TEST(AtomicFile, LetsTwoWritersOfOneFileFinish) {
  const TemporaryFolder folder;
  AtomicFile first(folder / "a"), second(folder / "a");
  first.write("first");
  second.write("second");
  first.commit();
  second.commit();
  EXPECT_EQ(read_file(folder / "a"), "second");
  EXPECT_EQ(folder.num_entries(), 1);
}

TEST(AtomicFile, GivesFilesTheUsualPermissions) {
  const TemporaryFolder folder;
  const mode_t mask = umask(022);
  write_file_atomically(folder / "a", "x");
  umask(mask);
  EXPECT_EQ(fs::status(folder / "a").permissions(), static_cast<fs::perms>(0644));
}

TEST(AtomicFile, PutsNothingInThePlaceOfDevicesPipesAndFolders) {
  const TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  fs::create_directory(folder / "folder");
  fs::create_symlink("/dev/null", folder / "link");
  for (const fs::path& place : {folder / "pipe", folder / "folder", folder / "link"}) {
    EXPECT_THROW(write_file_atomically(place, "x"), FileError) << place;
    EXPECT_FALSE(fs::is_regular_file(place)) << place;
  }
}

TEST(AtomicFile, NamesPathAndReasonWhereItCannotWrite) {
  const TemporaryFolder folder;
  EXPECT_THAT(file_error_of([&] { AtomicFile file(folder / "missing/a"); }), AllOf(HasSubstr("missing/a"), HasSubstr("No such file or directory")));
  write_file_atomically(folder / "file", "x");
  EXPECT_THAT(file_error_of([&] { AtomicFile file(folder / "file/a"); }), HasSubstr("Not a directory"));
  fs::create_directory(folder / "taken");
  write_file_atomically(folder / "taken/inside", "x");
  EXPECT_THAT(file_error_of([&] { write_file_atomically(folder / "taken", "x"); }), AllOf(HasSubstr("taken"), HasSubstr("not a regular file")));
  EXPECT_EQ(folder.num_entries(), 2) << "a temporary file was left behind";
}

// A limit on the size of files fails like a full disk does: part of the bytes go out, then the system says no.
TEST(AtomicFile, LeavesNothingOfAFileThatDidNotFit) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "a", "old");
  struct rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  const struct rlimit small{1000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const std::string message = file_error_of([&] { write_file_atomically(folder / "a", std::string(5000, 'x')); });
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  EXPECT_THAT(message, AllOf(HasSubstr("cannot write"), HasSubstr((folder / "a").string()), HasSubstr("File too large")));
  EXPECT_EQ(read_file(folder / "a"), "old");
  EXPECT_EQ(folder.num_entries(), 1);
}

TEST(ReadFile, ReadsEverySizeAndPipes) {
  const TemporaryFolder folder;
  for (const std::size_t size : {0U, 1U, 4096U, 100001U}) {
    write_file_atomically(folder / "a", std::string(size, 'x'));
    EXPECT_EQ(read_file(folder / "a"), std::string(size, 'x'));
  }
  EXPECT_THAT(read_file("/proc/self/status"), HasSubstr("VmHWM"));  // says size 0, like a pipe
}

TEST(ReadFile, NamesPathAndReasonOfFailure) {
  const TemporaryFolder folder;
  EXPECT_THAT(file_error_of([&] { (void)read_file(folder / "missing"); }), AllOf(HasSubstr("missing"), HasSubstr("No such file")));
  EXPECT_THAT(file_error_of([&] { (void)read_file(folder.path()); }), HasSubstr("Is a directory"));
}

TEST(Folders, AreMadeWithTheirParents) {
  const TemporaryFolder folder;
  make_folders(folder / "a/b/c");
  make_folders(folder / "a/b/c");
  sync_folder(folder / "a/b/c");
  EXPECT_TRUE(fs::is_directory(folder / "a/b/c"));
  write_file_atomically(folder / "file", "x");
  EXPECT_THAT(file_error_of([&] { make_folders(folder / "file/b"); }), AllOf(HasSubstr("file/b"), HasSubstr("Not a directory")));
  EXPECT_THAT(file_error_of([&] { sync_folder(folder / "none"); }), HasSubstr("No such file"));
}

TEST(FreeBytes, AnswersForPathsThatDoNotExistYet) {
  const TemporaryFolder folder;
  EXPECT_GT(free_bytes(folder.path()), 0);
  EXPECT_GT(free_bytes(folder / "not/yet/there"), 0);
  EXPECT_GT(free_bytes("relative-and-missing"), 0);
}

TEST(MappedFile, ShowsTheBytesOfTheFile) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "a", "bytes");
  MappedFile file(folder / "a");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()), "bytes");
  MappedFile other;
  EXPECT_TRUE(other.bytes().empty());
  other = std::move(file);
  EXPECT_EQ(other.bytes().size(), 5U);
  const MappedFile third(std::move(other));
  EXPECT_EQ(third.bytes().size(), 5U);
}

TEST(MappedFile, OfAnEmptyFileIsEmpty) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "a", "");
  EXPECT_TRUE(MappedFile(folder / "a").bytes().empty());
}

// Positions beyond 4 GiB, without the disk that would take: a file with a hole.
TEST(MappedFile, ReadsBeyondFourGibibytes) {
  const TemporaryFolder folder;
  {
    std::ofstream file(folder / "a", std::ios::binary);
    file.seekp(Index{6} << 30);
    file << "end";
  }
  const MappedFile file(folder / "a");
  EXPECT_EQ(file.bytes().size(), (std::size_t{6} << 30) + 3);
  EXPECT_EQ(file.bytes().back(), std::byte{'d'});
}

TEST(MappedFile, RefusesWhatIsNoFile) {
  const TemporaryFolder folder;
  EXPECT_THAT(file_error_of([&] { MappedFile file(folder.path()); }), HasSubstr("not a regular file"));
  EXPECT_THAT(file_error_of([&] { MappedFile file(folder / "missing"); }), HasSubstr("No such file"));
}

}  // namespace
}  // namespace optimus
