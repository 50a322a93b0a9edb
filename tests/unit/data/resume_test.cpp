// Interrupted calls of prepare: the next one goes on, and the bytes are those of a call that was never interrupted.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "optimus/base/file.hpp"
#include "optimus/base/folder_lock.hpp"
#include "optimus/comm/self/self.hpp"
#include "tests/unit/data/data_testing.hpp"

namespace optimus {
namespace {

using namespace testing_data;

class PrepareResume : public testing::Test {
 protected:
  PrepareResume() {
    for (int f = 0; f < 4; ++f) {
      std::string lines;
      for (int i = 0; i < 1500; ++i) lines += fmt::format("{{\"text\": \"file {} line {} {}\"}}\n", f, i, std::string(static_cast<std::size_t>(i % 97), 'x'));
      inputs_.push_back(folder_.write(fmt::format("{}.jsonl", f), lines));
    }
  }
  PrepareOptions options(const fs::path& out) {
    PrepareOptions o;
    o.out = out;
    o.inputs = inputs_;
    o.sequence_length = 32;
    o.shard_tokens = 50000;
    o.num_workers = 2;
    o.part_bytes = 1;  // a part a file
    return o;
  }
  std::map<std::string, std::string> uninterrupted() {
    run_prepare(options(folder_.path() / "whole"));
    return files_of(folder_.path() / "whole");
  }
  TemporaryFolder folder_;
  std::vector<std::string> inputs_;
};

TEST_F(PrepareResume, SurvivesBeingKilledAtAnyTime) {
  const auto expected = uninterrupted();
  int killed = 0, finished_alive = 0;
  // A little later each time, so that every stage is hit, and the end too on a slow or busy machine; the work already done is kept or not.
  double delay_us = 100;
  for (int attempt = 0; finished_alive < 2 && attempt < 400; ++attempt) {
    const fs::path out = folder_.path() / "killed";
    if (attempt % 3 == 0) fs::remove_all(out);
    const pid_t child = fork();
    if (child == 0) {
      run_prepare(options(out));
      _exit(0);
    }
    usleep(static_cast<useconds_t>(delay_us));
    delay_us *= 1.04;
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status)) {
      ASSERT_EQ(WEXITSTATUS(status), 0);
      ++finished_alive;
    } else {
      ++killed;
    }
    if (fs::exists(out / "dataset.json")) {
      auto files = files_of(out);
      std::erase_if(files, [](const auto& file) { return file.first.starts_with("work/"); });  // killed between dataset.json and tidying up
      ASSERT_EQ(files, expected) << "attempt " << attempt;
      fs::remove_all(out);
    }
  }
  EXPECT_GT(killed, 3);
  EXPECT_EQ(finished_alive, 2);
  run_prepare(options(folder_.path() / "killed"));
  EXPECT_EQ(files_of(folder_.path() / "killed"), expected);
}

TEST_F(PrepareResume, KeepsThePartsThatWereFinished) {
  const auto expected = uninterrupted();
  const fs::path out = folder_.path() / "out", work = out / "work";
  const std::string good = read_file(inputs_[2]);
  std::string bad = good;
  bad[10] = '\xFF';
  folder_.write("2.jsonl", bad);
  EXPECT_THROW(run_prepare(options(out)), DataError);
  ASSERT_TRUE(fs::exists(work / "part-00001.tokens"));
  EXPECT_FALSE(fs::exists(work / "part-00002.tokens")) << "nothing half done is taken for whole";
  const auto written = fs::last_write_time(work / "part-00001.tokens");
  folder_.write("2.jsonl", good);
  // A folder in the way of a shard stops the last step.
  fs::create_directories(out / "shards" / "shard-00002.npy" / "x");
  EXPECT_THROW(run_prepare(options(out)), FileError);
  EXPECT_EQ(fs::last_write_time(work / "part-00001.tokens"), written);
  ASSERT_TRUE(fs::exists(work / "shard-00000.json"));
  const auto shard_written = fs::last_write_time(out / "shards" / "shard-00000.npy");
  fs::remove_all(out / "shards" / "shard-00002.npy");
  run_prepare(options(out));
  EXPECT_EQ(fs::last_write_time(out / "shards" / "shard-00000.npy"), shard_written);
  EXPECT_EQ(files_of(out), expected);
}

TEST_F(PrepareResume, DoesPartsAgainWhoseInputChanged) {
  const fs::path out = folder_.path() / "out";
  fs::create_directories(out / "shards" / "shard-00000.npy" / "x");
  EXPECT_THROW(run_prepare(options(out)), FileError);
  std::string lines = read_file(inputs_[1]);
  lines[12] = 'F';  // same size, another text
  folder_.write("1.jsonl", lines);
  fs::remove_all(out / "shards" / "shard-00000.npy");
  run_prepare(options(out));
  EXPECT_EQ(files_of(out), uninterrupted());
}

TEST_F(PrepareResume, RefusesOtherOptionsOnAnUnfinishedFolder) {
  const fs::path out = folder_.path() / "out";
  fs::create_directories(out / "shards" / "shard-00000.npy" / "x");
  EXPECT_THROW(run_prepare(options(out)), FileError);
  auto other = options(out);
  other.seed = 9;
  expect_contains(message_of<ConfigError>([&] { run_prepare(other); }), {"seed: 1 there, 9 now", "--out"});
  expect_contains(message_of<DataError>([&] { static_cast<void>(Dataset(out)); }), {"unfinished", "optimus prepare"});
}

TEST_F(PrepareResume, RefusesAFolderThatAnotherProcessWrites) {
  const fs::path out = folder_.path() / "out";
  fs::create_directories(out / "work");
  auto held = FolderLock::take(out / "work" / "lock");
  ASSERT_TRUE(held.has_value());
  expect_contains(message_of<ConfigError>([&] { run_prepare(options(out)); }), {"another process"});
  held.reset();
  run_prepare(options(out));
}

}  // namespace
}  // namespace optimus
