// Writes that fail half way, at every place: the error names the path, what was there stays valid, nothing else stays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <set>

#include "optimus/base/file.hpp"
#include "optimus/checkpoint/async_writer.hpp"
#include "optimus/checkpoint/hugging_face.hpp"
#include "optimus/checkpoint/store.hpp"
#include "optimus/comm/self/self.hpp"
#include "tests/support/checkpoint_testing.hpp"

namespace optimus {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Files of this process cannot become larger than `bytes` as long as this lives; a write beyond is an error, as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(Index bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &old_limit_);
    const rlimit limit{.rlim_cur = static_cast<rlim_t>(bytes), .rlim_max = old_limit_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old_limit_);
    std::signal(SIGXFSZ, old_handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*old_handler_)(int);
  rlimit old_limit_{};
};

class WriteErrorTest : public testing::Test {
 protected:
  std::set<std::string> names() const {
    std::set<std::string> result;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) result.insert(entry.path().filename().string());
    return result;
  }
  test::TemporaryFolder folder;
  std::filesystem::path slot = folder.path() / "slot-0";
  std::unique_ptr<Communicator> world = make_self_communicator();
  test::ChunkSet set = test::cut(test::ToyState(), test::layouts()[0]);
};

TEST_F(WriteErrorTest, KeepsTheOldCheckpointWhereverTheDiskIsFull) {
  write_checkpoint(*world, slot, test::toy_info(1), set.chunks);
  const std::string manifest = test::read_bytes(slot / "manifest.json");
  Index failures = 0;
  for (Index limit = 0; limit < 4000; limit += 37) {
    try {
      const FileSizeLimit disk(limit);
      write_checkpoint(*world, slot, test::toy_info(2), set.chunks, 700);
    } catch (const FileError& error) {
      ++failures;
      EXPECT_THAT(error.what(), AllOf(HasSubstr(".slot-0.writing"), HasSubstr("File too large")));
      ASSERT_EQ(test::read_bytes(slot / "manifest.json"), manifest) << limit;
      ASSERT_EQ(names(), std::set<std::string>{"slot-0"}) << limit;
      continue;
    }
    EXPECT_EQ(inspect_checkpoint(slot).position.step, 2);
    break;
  }
  EXPECT_GT(failures, 30);
  EXPECT_EQ(inspect_checkpoint(slot).position.step, 2);
  EXPECT_TRUE(verify_checkpoint(slot).empty());
}

TEST_F(WriteErrorTest, TellsTheSameFromTheBackground) {
  AsyncCheckpointWriter writer(*world);
  {
    const FileSizeLimit disk(1000);
    writer.start(slot, test::toy_info(1), set.chunks);
    try {
      (void)writer.finish();
      ADD_FAILURE() << "no error";
    } catch (const FileError& error) {
      EXPECT_THAT(error.what(), HasSubstr(".slot-0.writing"));
    }
  }
  EXPECT_TRUE(names().empty());
  writer.start(slot, test::toy_info(2), set.chunks);
  EXPECT_EQ(writer.finish(), slot);
}

TEST_F(WriteErrorTest, ChecksTheFreeSpaceFirst) {
  // As large as no file system is; never touched.
  const Index count = Index{1} << 50;
  const std::vector<Chunk> huge{
      {.name = "model.w", .global_shape = {count}, .box = Box::whole({count}), .flat_begin = 0, .data = View(nullptr, DType::kF32, {count})}};
  try {
    write_checkpoint(*world, slot, test::toy_info(), huge);
    ADD_FAILURE() << "no error";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr(slot.string()), HasSubstr("bytes, the file system has")));
  }
  EXPECT_TRUE(names().empty());
}

// Runs `check` in a process without root's right to write everywhere.
int as_ordinary_user(const std::function<bool()>& check) {
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(3);
    _exit(check() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(WriteErrorTest, NamesAFolderThatCannotBeWritten) {
  write_checkpoint(*world, slot, test::toy_info(1), set.chunks);
  chmod(folder.path().c_str(), 0555);
  const int result = as_ordinary_user([&] {
    try {
      write_checkpoint(*world, slot, test::toy_info(2), set.chunks);
    } catch (const FileError& error) {
      return std::string(error.what()).find(folder.path().string()) != std::string::npos &&
             std::string(error.what()).find("Permission denied") != std::string::npos;
    }
    return false;
  });
  chmod(folder.path().c_str(), 0755);
  EXPECT_EQ(result, 0);
  EXPECT_EQ(inspect_checkpoint(slot).position.step, 1);
}

TEST_F(WriteErrorTest, ConsolidatingAndExportingLeaveNoPartialFile) {
  write_checkpoint(*world, slot, test::toy_info(1), set.chunks);
  {
    const FileSizeLimit disk(1500);
    EXPECT_THROW(consolidate_checkpoint(slot, folder.path() / "all.safetensors"), FileError);
    const std::vector<ParamSpec> specs{{.name = "w", .shape = {1000}}};
    EXPECT_THROW(write_hf_folder(folder.path() / "out", "{}", specs, DType::kF32,
                                 [](const ParamSpec&, Index, View out) { std::memset(out.data(), 0, static_cast<std::size_t>(out.bytes())); }),
                 FileError);
  }
  EXPECT_EQ(names(), (std::set<std::string>{"slot-0", "out"}));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path() / "out"));
}

// A process that saves as fast as it can is killed at odd moments: each time a complete checkpoint is there, of the step last reported or a newer one.
TEST_F(WriteErrorTest, SurvivesKillsAtAnyMoment) {
  const CheckpointStore store(folder.path());
  Index last = 0;
  for (int trial = 0; trial < 30; ++trial) {
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      for (Index step = last + 1;; ++step) {
        const auto next = store.next_slot();
        write_checkpoint(*world, next, test::toy_info(step), test::cut(test::ToyState(static_cast<float>(step % 100)), test::layouts()[0]).chunks, 700);
        store.publish_latest(next);
        if (write(pipe_ends[1], &step, sizeof(step)) != sizeof(step)) _exit(1);
      }
    }
    close(pipe_ends[1]);
    Index reported = last;
    ASSERT_EQ(read(pipe_ends[0], &reported, sizeof(reported)), static_cast<ssize_t>(sizeof(reported)));
    usleep(static_cast<useconds_t>(137 * trial % 4000));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    while (read(pipe_ends[0], &reported, sizeof(reported)) == static_cast<ssize_t>(sizeof(reported))) {}
    close(pipe_ends[0]);
    if (trial % 2 == 1) store.clean();  // also found without
    std::vector<std::string> damaged;
    const auto candidates = store.candidates(damaged);
    ASSERT_FALSE(candidates.empty()) << trial;
    const CheckpointInfo& newest = candidates.front();
    EXPECT_GE(newest.position.step, reported) << trial;
    const test::ChunkSet expected = test::cut(test::ToyState(static_cast<float>(newest.position.step % 100)), test::layouts()[6]), found = expected.poisoned();
    read_checkpoint(*world, newest.folder, found.chunks);
    EXPECT_EQ(found.memory, expected.memory) << trial;
    last = newest.position.step;
  }
}

}  // namespace
}  // namespace optimus
