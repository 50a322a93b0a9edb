// Runs whose disk fills up: what was saved stays whole, and the run says what happened.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "tests/support/cli_testing.hpp"

namespace optimus::test {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(FullDisk, EndsTheRunAndLeavesTheEarlierCheckpointWhole) {
  const auto folder = fresh_folder();
  const auto data = prepare_ids(folder, some_ids(16 * 30 + 1, 61), 16);
  const auto config = write_toy_config(folder, data);
  const auto run = folder / "run";
  std::filesystem::create_directories(run);
  // A checkpoint takes half a megabyte, and one more has to be free: the first fits, a second does not. The mount ends with the shell, so results are copied out of it.
  const std::string train = optimus_command({"pretrain", config.string(), "--set", "checkpoint.interval=2", "--set", "checkpoint.async=false"});
  const std::string verify = optimus_command({"checkpoint", "verify", (run / "checkpoints/slot-0").string()});
  std::ofstream(folder / "script") << "mount -t tmpfs -o size=1900k none '" << run.string() << "' || exit 77\ncd '" << folder.string() << "'\n"
                                   << train << " 2>err; code=$?\n"
                                   << verify << " >verified 2>&1 || exit 78\ncp run/metrics.jsonl .\nls run/checkpoints >left\nexit $code\n";
  const std::string space = ::geteuid() == 0 ? "unshare --mount" : "unshare --user --map-root-user --mount";
  const int status = std::system(("OMP_NUM_THREADS=1 " + space + " sh '" + (folder / "script").string() + "'").c_str());
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1) << text_of(folder / "err") << text_of(folder / "verified");
  EXPECT_NE(text_of(folder / "err").find("make room"), std::string::npos) << text_of(folder / "err");
  EXPECT_EQ(text_of(folder / "left"), "latest\nslot-0\n") << "no part of the checkpoint that failed";
  const auto lines = read_metrics(folder);
  EXPECT_EQ(lines.size(), 6U) << "steps go on while only checkpoints fail";
}

// Somebody else fills the disk to the last byte, and makes room later: no line is missing then.
TEST(FullDisk, KeepsLinesOfMetricsUntilThereIsRoom) {
  const auto folder = fresh_folder();
  const auto data = prepare_ids(folder, some_ids(16 * 30 + 1, 61), 16);
  const auto config = write_toy_config(folder, data);
  const auto run = folder / "run";
  std::filesystem::create_directories(run);
  const std::string train = optimus_command({"pretrain", config.string(), "--set", "run.steps=1000000", "--set", "log.interval=1000000"});
  std::ofstream(folder / "script") << "mount -t tmpfs -o size=4m none '" << run.string() << "' || exit 77\ncd '" << folder.string() << "'\n"
                                   << train << " 2>err & pid=$!\nuntil [ -s run/metrics.jsonl ]; do sleep 0.02; done\n"
                                   << "dd if=/dev/zero of=run/fill bs=4k 2>/dev/null\nuntil grep -q 'lines wait' err || ! kill -0 $pid; do sleep 0.02; done\n"
                                   << "rm run/fill\nuntil grep -q 'written again' err || ! kill -0 $pid; do sleep 0.02; done\n"
                                   << "kill -TERM $pid; wait $pid; code=$?\ncp run/metrics.jsonl .\nexit $code\n";
  const std::string space = ::geteuid() == 0 ? "unshare --mount" : "unshare --user --map-root-user --mount";
  const int status = std::system(("OMP_NUM_THREADS=1 " + space + " sh '" + (folder / "script").string() + "'").c_str());
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 12) << text_of(folder / "err");
  const auto lines = read_metrics(folder);
  for (std::size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i]["step"], i + 1);
}

TEST(FullDisk, EndsTheRunWhenEvenALineOfMetricsDoesNotFit) {
  const auto folder = fresh_folder();
  const auto data = prepare_ids(folder, some_ids(16 * 30 + 1, 61), 16);
  const auto config = write_toy_config(folder, data);
  const auto run = folder / "run";
  std::filesystem::create_directories(run);
  const std::string train = optimus_command({"pretrain", config.string(), "--set", "run.steps=100000", "--set", "log.interval=100000", "--set",
                                             "log.tensorboard=false", "--set", "checkpoint.keep_going_on_write_error=false"});
  std::ofstream(folder / "script") << "mount -t tmpfs -o size=64k none '" << run.string() << "' || exit 77\ncd '" << folder.string() << "'\n"
                                   << train << " 2>err; code=$?\ncp run/metrics.jsonl .\nexit $code\n";
  const std::string space = ::geteuid() == 0 ? "unshare --mount" : "unshare --user --map-root-user --mount";
  const int status = std::system(("OMP_NUM_THREADS=1 " + space + " sh '" + (folder / "script").string() + "'").c_str());
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 1) << text_of(folder / "err");
  EXPECT_NE(text_of(folder / "err").find("metrics.jsonl: No space left on device"), std::string::npos) << text_of(folder / "err");
  EXPECT_GT(text_of(folder / "metrics.jsonl").size(), 20000U);
}

// One rank has a part of its file when another program takes all the room there is; then that goes away.
TEST(FullDisk, BetweenTwoRanksWritesCostsOneCheckpoint) {
  for (const char* after_bytes : {"1", "60000"}) {
    const auto folder = fresh_folder();
    const auto config = write_toy_config(folder, prepare_ids(folder, some_ids(16 * 30 + 1, 61), 16));
    const std::string checkpoints = (folder / "run/checkpoints").string(), mark = (folder / "run/debug/fault-0-struck").string();
    const std::string train =
        optimus_command({"pretrain", config.string(), "--set", "run.steps=80", "--set", "checkpoint.interval=10", "--set", "log.tensorboard=false", "--set",
                         std::string("faults=[{kind=\"slow\", seconds=3, rank=1, step=20, phase=\"write\", after_bytes=") + after_bytes + "}]"},
                        2);
    std::ofstream(folder / "script") << "mkdir -p '" << checkpoints << "'; mount -t tmpfs -o size=4m none '" << checkpoints << "' || exit 77\ncd '"
                                     << folder.string() << "'\n"
                                     << train << " >out 2>err & run=$!\nuntil [ -e '" << mark << "' ] || ! kill -0 $run; do sleep 0.02; done\ncat /dev/zero >'"
                                     << checkpoints << "/filler' 2>/dev/null\n"
                                     << "until grep -q 'was not written' err || ! kill -0 $run; do sleep 0.02; done\nrm '" << checkpoints << "/filler'\n"
                                     << "wait $run || exit\n"
                                     << "for slot in slot-0 slot-1; do " << optimus_program().string() << " checkpoint verify '" << checkpoints
                                     << "'/$slot || exit 78; done\nls -A '" << checkpoints << "' >left\n";
    const std::string space = ::geteuid() == 0 ? "unshare --mount" : "unshare --user --map-root-user --mount";
    const int status = std::system(("OMP_NUM_THREADS=1 " + space + " timeout 100 sh '" + (folder / "script").string() + "' >/dev/null 2>&1").c_str());
    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0) << text_of(folder / "err");
    EXPECT_NE(text_of(folder / "err").find("checkpoint of step 20 was not written"), std::string::npos) << text_of(folder / "err");
    EXPECT_NE(text_of(folder / "err").find("No space left on device"), std::string::npos) << text_of(folder / "err");
    EXPECT_EQ(text_of(folder / "left"), "latest\nslot-0\nslot-1\n") << "no part of the checkpoint that failed";
    EXPECT_EQ(read_metrics(folder / "run").size(), 80U);
  }
}

}  // namespace
}  // namespace optimus::test
