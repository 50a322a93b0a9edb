// Disks that fill up and files that one rank finds damaged.

#include <cstdlib>
#include <ostream>

#include "optimus/base/file.hpp"
#include "support.hpp"

namespace optimus::test {
namespace {

TEST_F(Drill, AFullDiskIsTheEndIfSoConfigured) {
  for (const char* more : {"", "after_bytes=3000"}) {
    std::filesystem::remove_all(run_);
    const auto result = run(kEp2Dp2, {fault("disk_full", 1, 2, more), "checkpoint.keep_going_on_write_error=false", kPatient});
    EXPECT_EQ(result.code, 1) << result.err;
    EXPECT_HAS(result.err, "No space left on device");
    EXPECT_HAS(result.err, "rank 1");
    EXPECT_EQ(run_optimus({"checkpoint", "verify", run_.string()}).code, 0) << "that of step 1";
  }
}

struct Place {
  int rank = 0, after_bytes = 0;
};
void PrintTo(const Place& place, std::ostream* out) { *out << "rank " << place.rank << " after " << place.after_bytes << " bytes"; }

/// All of a rank's part are some 170,000 bytes: before, at its first bytes, in its middle, and with its last.
std::vector<Place> places() {
  if (std::getenv("OPTIMUS_ALL_DRILLS") == nullptr) return {{0, 1}, {3, 60000}};
  std::vector<Place> all;
  for (const int rank : {0, 1, 3})
    for (const int bytes : {0, 1, 1000, 4096, 10000, 20000, 40000, 60000, 80000, 100000, 120000, 140000, 160000, 1000000000}) all.push_back({rank, bytes});
  return all;
}

class FullDisk : public Drill, public testing::WithParamInterface<Place> {};

TEST_P(FullDisk, IsAWarningAndCostsNothingButThatCheckpoint) {
  const Place place = GetParam();
  const auto result = run(kEp2Dp2, {fault("disk_full", place.rank, 2, "after_bytes=" + std::to_string(place.after_bytes)), kPatient});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_HAS(result.err, "checkpoint of step 2 was not written, the run goes on");
  EXPECT_HAS(result.err, "No space left on device");
  ASSERT_EQ(failures().size(), 1U);
  EXPECT_EQ(failures()[0]["kind"], "write");
  for (const char* slot : {"slot-0", "slot-1"}) EXPECT_EQ(run_optimus({"checkpoint", "verify", (run_ / "checkpoints" / slot).string()}).code, 0) << slot;
  for (const auto& entry : std::filesystem::directory_iterator(run_ / "checkpoints"))
    EXPECT_FALSE(entry.path().filename().string().starts_with(".")) << entry.path() << " is left";
  const std::string disturbed = metrics_without_times(run_);
  std::filesystem::remove_all(run_);
  ASSERT_EQ(run(kEp2Dp2, {kPatient}).code, 0);
  EXPECT_EQ(disturbed, metrics_without_times(run_));
}
INSTANTIATE_TEST_SUITE_P(Table, FullDisk, testing::ValuesIn(places()),
                         [](const auto& place) { return "rank" + std::to_string(place.param.rank) + "_after_" + std::to_string(place.param.after_bytes); });

std::filesystem::path shard_in(const std::filesystem::path& data) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(data))
    if (entry.path().extension() == ".npy") return entry.path();
  return {};
}

TEST_F(Drill, AShardThatIsDamagedEndsAllRanksAlike) {
  const auto shard = shard_in(folder_ / "data");
  ASSERT_FALSE(shard.empty());
  std::filesystem::resize_file(shard, 10);
  const auto result = run(kTp2Pp2, {kPatient});
  EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_HAS(result.err, shard.filename().string());
}

/// As on a node whose copy of the data is not what the others have.
TEST_F(Drill, AShardThatOneRankFindsDamagedEndsAllRanksUnderItsName) {
  std::filesystem::create_directories(folder_ / "bad");
  std::filesystem::copy(folder_ / "data", folder_ / "bad/data", std::filesystem::copy_options::recursive);
  const auto shard = shard_in(folder_ / "bad/data");
  std::filesystem::resize_file(shard, 100);
  const auto result =
      run_each(kTp2Pp2, {"data.path=data", kPatient}, [this](int rank) { return "cd '" + (rank == 2 ? folder_ / "bad" : folder_).string() + "'"; });
  EXPECT_EQ(result.code, 3) << result.err;
  EXPECT_HAS(result.err, "rank 2");
  EXPECT_HAS(result.err, shard.filename().string());
}

}  // namespace
}  // namespace optimus::test
