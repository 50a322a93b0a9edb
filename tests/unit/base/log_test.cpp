#include "optimus/base/log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "optimus/base/file.hpp"
#include "temporary_folder.hpp"

namespace optimus {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Log, WritesPlainLinesToStandardError) {
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  log_info("step {} of {}", 1, 2);
  log_warning("little space");
  log_error("{}", "braces {} stay");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "step 1 of 2\nwarning: little space\nerror: braces {} stay\n");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
}

TEST(Log, DropsWhatIsBelowTheLevel) {
  testing::internal::CaptureStderr();
  log_debug("hidden");
  set_log_level(LogLevel::kDebug);
  log_debug("shown");
  set_log_level(LogLevel::kError);
  log_warning("hidden too");
  set_log_level(LogLevel::kInfo);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "debug: shown\n");
}

TEST(Log, PutsThePrefixBeforeEveryLine) {
  testing::internal::CaptureStderr();
  set_log_prefix("rank 3: ");
  log_info("hello");
  set_log_prefix("");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "rank 3: hello\n");
}

TEST(Log, AppendsToAFileWithTheTimeAndKeepsLinesOfThreadsApart) {
  const TemporaryFolder folder;
  const std::string path = (folder / "log.txt").string();
  write_file_atomically(path, "earlier\n");
  testing::internal::CaptureStderr();
  add_log_file(path);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 50; ++i) log_info("a line of {} letters", 19);
    });
  }
  for (std::thread& thread : threads) thread.join();
  (void)testing::internal::GetCapturedStderr();
  const std::string text = read_file(path);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 201);
  EXPECT_THAT(text, testing::ContainsRegex("^earlier\n[0-9-]+ [0-9:.]+  a line of 19 letters\n"));
}

TEST(Log, SaysWhyAFileCannotBeAppendedTo) {
  const TemporaryFolder folder;
  write_file_atomically(folder / "file", "");
  EXPECT_THROW(add_log_file((folder / "file/log.txt").string()), FileError);
}

}  // namespace
}  // namespace optimus
