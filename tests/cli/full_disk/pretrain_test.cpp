// Runs whose disk fills up: what was saved stays whole, and the run says what happened.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tests/support/cli_testing.hpp"

namespace optimus::test {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// A run in FOLDER/run, a file system of its own that a test can fill.
struct SmallDisk {
  std::filesystem::path folder = fresh_folder(), run = folder / "run", config = write_toy_config(folder, prepare_ids(folder, some_ids(16 * 30 + 1, 61), 16));

  /// Exit code of `script` (shell words, in FOLDER) with `size` of memory mounted at `place`; -1 if it did not end by itself. The mount ends with the shell, so
  /// results are copied out of it.
  [[nodiscard]] int run_mounted(const std::filesystem::path& place, const std::string& size, const std::string& script) const {
    std::filesystem::create_directories(place);
    std::ofstream(folder / "script") << "mount -t tmpfs -o size=" << size << " none '" << place.string() << "' || exit 77\ncd '" << folder.string() << "'\n"
                                     << script;
    const std::string space = ::geteuid() == 0 ? "unshare --mount" : "unshare --user --map-root-user --mount";
    const int status = std::system(("OMP_NUM_THREADS=1 " + space + " timeout 100 sh '" + (folder / "script").string() + "'").c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  [[nodiscard]] std::string text(const char* name) const { return text_of(folder / name); }
};

TEST(FullDisk, EndsTheRunAndLeavesTheEarlierCheckpointWhole) {
  const SmallDisk disk;
  const std::string train = optimus_command({"pretrain", disk.config.string(), "--set", "checkpoint.interval=2", "--set", "checkpoint.async=false"});
  const std::string verify = optimus_command({"checkpoint", "verify", (disk.run / "checkpoints/slot-0").string()});
  // A checkpoint takes half a megabyte, and one more has to be free: the first fits, a second does not.
  const int code = disk.run_mounted(
      disk.run, "1900k", train + " 2>err; code=$?\n" + verify + " >verified 2>&1 || exit 78\ncp run/metrics.jsonl .\nls run/checkpoints >left\nexit $code\n");
  EXPECT_EQ(code, 1) << disk.text("err") << disk.text("verified");
  EXPECT_NE(disk.text("err").find("make room"), std::string::npos) << disk.text("err");
  EXPECT_EQ(disk.text("left"), "latest\nslot-0\n") << "no part of the checkpoint that failed";
  EXPECT_EQ(read_metrics(disk.folder).size(), 6U) << "steps go on while only checkpoints fail";
}

// Somebody else fills the disk to the last byte, and makes room later: no line is missing then.
TEST(FullDisk, KeepsLinesOfMetricsUntilThereIsRoom) {
  const SmallDisk disk;
  const std::string train = optimus_command({"pretrain", disk.config.string(), "--set", "run.steps=1000000", "--set", "log.interval=1000000"});
  const int code = disk.run_mounted(disk.run, "4m",
                                    train +
                                        " 2>err & pid=$!\nuntil [ -s run/metrics.jsonl ]; do sleep 0.02; done\n"
                                        "dd if=/dev/zero of=run/fill bs=4k 2>/dev/null\nuntil grep -q 'lines wait' err || ! kill -0 $pid; do sleep 0.02; done\n"
                                        "rm run/fill\nuntil grep -q 'written again' err || ! kill -0 $pid; do sleep 0.02; done\n"
                                        "kill -TERM $pid; wait $pid; code=$?\ncp run/metrics.jsonl .\nexit $code\n");
  EXPECT_EQ(code, 12) << disk.text("err");
  const auto lines = read_metrics(disk.folder);
  for (std::size_t i = 0; i < lines.size(); ++i) EXPECT_EQ(lines[i]["step"], i + 1);
}

TEST(FullDisk, EndsTheRunWhenEvenALineOfMetricsDoesNotFit) {
  const SmallDisk disk;
  const std::string train = optimus_command({"pretrain", disk.config.string(), "--set", "run.steps=100000", "--set", "log.interval=100000", "--set",
                                             "log.tensorboard=false", "--set", "checkpoint.keep_going_on_write_error=false"});
  EXPECT_EQ(disk.run_mounted(disk.run, "64k", train + " 2>err; code=$?\ncp run/metrics.jsonl .\nexit $code\n"), 1) << disk.text("err");
  EXPECT_NE(disk.text("err").find("metrics.jsonl: No space left on device"), std::string::npos) << disk.text("err");
  EXPECT_GT(disk.text("metrics.jsonl").size(), 20000U);
}

// One rank has a part of its file when another program takes all the room there is; then that goes away.
TEST(FullDisk, BetweenTwoRanksWritesCostsOneCheckpoint) {
  for (const char* after_bytes : {"1", "60000"}) {
    const SmallDisk disk;
    const std::string checkpoints = (disk.run / "checkpoints").string(), mark = (disk.run / "debug/fault-0-struck").string();
    const std::string train =
        optimus_command({"pretrain", disk.config.string(), "--set", "run.steps=80", "--set", "checkpoint.interval=10", "--set", "log.tensorboard=false",
                         "--set", std::string("faults=[{kind=\"slow\", seconds=3, rank=1, step=20, phase=\"write\", after_bytes=") + after_bytes + "}]"},
                        2);
    std::ostringstream script;
    script << "exec >/dev/null 2>&1\n"
           << train << " >out 2>err & run=$!\nuntil [ -e '" << mark << "' ] || ! kill -0 $run; do sleep 0.02; done\ncat /dev/zero >'" << checkpoints
           << "/filler'\nuntil grep -q 'was not written' err || ! kill -0 $run; do sleep 0.02; done\nrm '" << checkpoints << "/filler'\nwait $run || exit\n"
           << "for slot in slot-0 slot-1; do " << optimus_program().string() << " checkpoint verify '" << checkpoints << "'/$slot || exit 78; done\nls -A '"
           << checkpoints << "' >left\n";
    EXPECT_EQ(disk.run_mounted(checkpoints, "4m", script.str()), 0) << disk.text("err");
    EXPECT_NE(disk.text("err").find("checkpoint of step 20 was not written"), std::string::npos) << disk.text("err");
    EXPECT_NE(disk.text("err").find("No space left on device"), std::string::npos) << disk.text("err");
    EXPECT_EQ(disk.text("left"), "latest\nslot-0\nslot-1\n") << "no part of the checkpoint that failed";
    EXPECT_EQ(read_metrics(disk.run).size(), 80U);
  }
}

}  // namespace
}  // namespace optimus::test
