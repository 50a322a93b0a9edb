#include "optimus/checkpoint/store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "optimus/checkpoint/publish.hpp"
#include "optimus/comm/self/self.hpp"
#include "tests/support/checkpoint_testing.hpp"

namespace optimus {
namespace {

using test::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;

class CheckpointStoreTest : public testing::Test {
 protected:
  void write(const std::filesystem::path& folder, Index step, bool is_full_state = true) {
    CheckpointInfo info = test::toy_info(step);
    info.is_full_state = is_full_state;
    const test::ToyState state(static_cast<float>(step));
    write_checkpoint(*world, folder, info, test::cut(state, test::layouts()[0]).chunks);
  }
  void save(Index step) {
    const auto slot = store.next_slot();
    write(slot, step);
    store.publish_latest(slot);
  }
  std::vector<Index> steps() {
    damaged.clear();
    std::vector<Index> result;
    for (const CheckpointInfo& info : store.candidates(damaged)) result.push_back(info.position.step);
    return result;
  }
  std::vector<Index> sorted_steps() {
    auto result = steps();
    std::sort(result.begin(), result.end());
    return result;
  }
  std::vector<Index> persistent_steps() {
    damaged.clear();
    std::vector<Index> result;
    for (const CheckpointInfo& info : store.persistent_candidates(damaged)) result.push_back(info.position.step);
    return result;
  }
  TemporaryFolder run;
  std::filesystem::path checkpoints = run.path() / "checkpoints";
  CheckpointStore store{run.path()};
  std::vector<std::string> damaged;
  std::unique_ptr<Communicator> world = make_self_communicator();
};

TEST_F(CheckpointStoreTest, IsEmptyBeforeTheFirstCheckpoint) {
  EXPECT_TRUE(steps().empty());
  EXPECT_TRUE(damaged.empty());
  EXPECT_EQ(CheckpointStore::other_slot(checkpoints / "slot-0"), checkpoints / "slot-1");
  EXPECT_EQ(CheckpointStore::other_slot(checkpoints / "slot-1"), checkpoints / "slot-0");
  EXPECT_EQ(store.next_slot(), checkpoints / "slot-0");
  store.clean();
  EXPECT_THROW((void)find_checkpoint(run.path()), CheckpointError);
}

TEST_F(CheckpointStoreTest, AlternatesBetweenTwoSlots) {
  for (Index step = 1; step <= 5; ++step) {
    save(step);
    EXPECT_EQ(steps(), step == 1 ? std::vector<Index>{1} : (std::vector<Index>{step, step - 1}));
  }
  EXPECT_EQ(test::read_bytes(checkpoints / "latest"), "slot-0\n");
  EXPECT_EQ(find_checkpoint(run.path()).position.step, 5);
}

TEST_F(CheckpointStoreTest, TakesTheOneWrittenLastNotTheOneOfTheHighestStep) {
  save(90);
  save(100);
  save(10);  // started afresh in the same folder
  EXPECT_EQ(steps(), (std::vector<Index>{10, 100}));
  EXPECT_EQ(store.next_slot(), checkpoints / "slot-1");
}

TEST_F(CheckpointStoreTest, ReportsDamagedOnesAndWritesThereNext) {
  save(1);
  save(2);
  std::filesystem::resize_file(checkpoints / "slot-1" / "rank-00000-0.safetensors", 100);
  EXPECT_EQ(steps(), std::vector<Index>{1});
  ASSERT_EQ(damaged.size(), 1U);
  EXPECT_THAT(damaged[0], AllOf(HasSubstr("slot-1"), HasSubstr("100 bytes")));
  EXPECT_EQ(store.next_slot(), checkpoints / "slot-1");
  std::filesystem::remove(checkpoints / "slot-0" / "manifest.json");
  EXPECT_TRUE(steps().empty());
  EXPECT_EQ(damaged.size(), 2U);
  EXPECT_THROW((void)find_checkpoint(run.path()), CheckpointError);
  save(3);
  EXPECT_EQ(steps(), std::vector<Index>{3});
}

TEST_F(CheckpointStoreTest, FindsPersistentOnesWhenThereIsNoFullState) {
  write(store.persistent(5), 5, false);
  write(store.persistent(12), 12, false);
  EXPECT_TRUE(steps().empty());
  EXPECT_EQ(find_checkpoint(run.path()).folder, checkpoints / "persistent" / "step-12");
  save(1);
  EXPECT_EQ(find_checkpoint(run.path()).position.step, 1);
  EXPECT_EQ(find_checkpoint(store.persistent(5)).position.step, 5);
}

// After each step of publishing the machine may stop. The new or the old state is then complete, and cleaning keeps the newest.
TEST_F(CheckpointStoreTest, SurvivesAnInterruptionAfterEachStepOfPublishing) {
  for (std::size_t done = 0; done <= publish_steps().size(); ++done) {
    save(1);
    save(2);
    const auto slot = store.next_slot();
    write(run.path() / "new", 3);
    const PublishPaths paths(slot);
    std::filesystem::rename(run.path() / "new", paths.writing);
    // The writer numbers checkpoints by the slots beside it; this one was written elsewhere.
    for (std::size_t i = 0; i < done; ++i) publish_steps()[i].run(paths);
    EXPECT_EQ(sorted_steps(), (std::vector<Index>{2, 3})) << done;
    store.clean();
    EXPECT_EQ(sorted_steps(), (std::vector<Index>{2, 3})) << done;
    EXPECT_TRUE(std::filesystem::exists(slot)) << done;
    EXPECT_FALSE(std::filesystem::exists(paths.writing)) << done;
    EXPECT_FALSE(std::filesystem::exists(paths.old)) << done;
    std::filesystem::remove_all(checkpoints);
  }
}

// The same for the removal of a checkpoint's files: whatever is gone already, it is not taken for whole and the others stay.
TEST_F(CheckpointStoreTest, CleaningKeepsTheLastGoodOne) {
  save(1);
  const PublishPaths paths(checkpoints / "slot-0");
  // Set aside, and the new one is torn.
  std::filesystem::rename(paths.folder, paths.old);
  std::filesystem::create_directory(paths.writing);
  test::write_bytes(paths.writing / "rank-00000-0.safetensors", "half");
  EXPECT_EQ(steps(), std::vector<Index>{1});
  store.clean();
  EXPECT_EQ(steps(), std::vector<Index>{1});
  EXPECT_TRUE(std::filesystem::exists(paths.folder));
  // In place but torn by the machine, the one before still there.
  std::filesystem::rename(paths.folder, paths.old);
  std::filesystem::create_directory(paths.folder);
  test::write_bytes(paths.folder / "manifest.json", "{\"xxh64\":\"0123456789abcdef\",");
  EXPECT_EQ(steps(), std::vector<Index>{1});
  store.clean();
  EXPECT_EQ(steps(), std::vector<Index>{1});
}

TEST_F(CheckpointStoreTest, KeepsTheNewestPersistentOnesAndEveryNth) {
  for (const Index step : {10, 20, 30, 40, 50, 60}) write(store.persistent(step), step, false);
  EXPECT_TRUE(store.prune_persistent(60, {}, damaged).empty()) << "without a policy all stay";
  EXPECT_TRUE(store.prune_persistent(60, {.last = 6, .every = 0}, damaged).empty());
  EXPECT_EQ(store.prune_persistent(60, {.last = 2, .every = 20}, damaged), (std::vector<Index>{10, 30}));
  EXPECT_EQ(persistent_steps(), (std::vector<Index>{60, 50, 40, 20}));
  EXPECT_EQ(store.prune_persistent(60, {.last = 1, .every = 0}, damaged), (std::vector<Index>{20, 40, 50}));
  EXPECT_EQ(persistent_steps(), std::vector<Index>{60});
}

TEST_F(CheckpointStoreTest, TheNewestPersistentOneIsOfTheHighestStepNotTheOneWrittenLast) {
  for (const Index step : {7, 14, 7, 7}) write(store.persistent(step), step, false);
  EXPECT_EQ(persistent_steps(), (std::vector<Index>{14, 7}));
  EXPECT_EQ(find_checkpoint(run.path()).position.step, 14);
}

TEST_F(CheckpointStoreTest, PrunesNothingOfAnEarlierRunAheadOfThisOne) {
  for (const Index step : {80, 90, 10, 20}) write(store.persistent(step), step, false);
  EXPECT_EQ(store.prune_persistent(20, {.last = 1, .every = 0}, damaged), std::vector<Index>{10});
  EXPECT_EQ(persistent_steps(), (std::vector<Index>{90, 80, 20}));
}

// The removal of a checkpoint may stop after any of its files; what is damaged is no reason to remove a good one.
TEST_F(CheckpointStoreTest, PruningThatIsInterruptedLosesNoGoodPersistentOne) {
  for (const Index step : {10, 20, 30, 40}) write(store.persistent(step), step, false);
  std::filesystem::remove(store.persistent(10) / "manifest.json");  // begun, and interrupted
  std::filesystem::resize_file(store.persistent(30) / "rank-00000-0.safetensors", 10);
  EXPECT_EQ(store.prune_persistent(40, {.last = 2, .every = 0}, damaged), (std::vector<Index>{10, 30})) << "the damaged one does not count, nor does it stay";
  EXPECT_EQ(persistent_steps(), (std::vector<Index>{40, 20}));
  std::filesystem::remove(store.persistent(20) / "rank-00000-0.safetensors");
  test::write_bytes(store.persistent(20) / "notes.txt", "mine");
  EXPECT_TRUE(store.prune_persistent(40, {.last = 1, .every = 0}, damaged).empty()) << "a folder that holds other things stays";
  EXPECT_TRUE(std::filesystem::exists(store.persistent(20) / "notes.txt"));
}

// A person keeps weights by a link, or keeps a slot on another disk: what is behind the link is not the store's.
TEST_F(CheckpointStoreTest, RemovesLinksAndNotWhatIsBehindThem) {
  save(1);
  save(2);
  for (const Index step : {10, 30}) write(store.persistent(step), step, false);
  std::filesystem::create_directory_symlink(checkpoints / "slot-1", store.persistent(20));
  EXPECT_EQ(store.prune_persistent(30, {.last = 1, .every = 0}, damaged), (std::vector<Index>{10, 20}));
  EXPECT_FALSE(std::filesystem::exists(store.persistent(20)));
  EXPECT_EQ(steps(), (std::vector<Index>{2, 1}));
  std::filesystem::rename(checkpoints / "slot-0", run.path() / "elsewhere");
  std::filesystem::create_directory_symlink(run.path() / "elsewhere", checkpoints / "slot-0");
  save(3);
  EXPECT_EQ(steps(), (std::vector<Index>{3, 2}));
  EXPECT_EQ(find_checkpoint(run.path() / "elsewhere").position.step, 1);
}

TEST_F(CheckpointStoreTest, PrunesBesideFilesThatOnlyHaveTheName) {
  for (const Index step : {10, 30}) write(store.persistent(step), step, false);
  test::write_bytes(store.persistent(20), "a file");
  EXPECT_EQ(store.prune_persistent(30, {.last = 1, .every = 0}, damaged), std::vector<Index>{10});
}

TEST_F(CheckpointStoreTest, WritesFirstWhereALoadFoundDamage) {
  save(1);
  save(2);
  const std::vector<std::filesystem::path> spoilt{checkpoints / "slot-1"};
  EXPECT_EQ(store.next_slot(), checkpoints / "slot-0");
  EXPECT_EQ(store.next_slot(spoilt), checkpoints / "slot-1") << "the only good one is in slot-0";
}

TEST_F(CheckpointStoreTest, MovesASlotWithForeignThingsAside) {
  save(1);
  save(2);
  EXPECT_FALSE(store.make_replaceable(checkpoints / "slot-0"));
  EXPECT_FALSE(store.make_replaceable(checkpoints / "slot-9"));
  for (const char* aside : {"slot-0.set-aside-1", "slot-0.set-aside-2"}) {
    test::write_bytes(checkpoints / "slot-0" / "README.txt", "do not touch");
    EXPECT_EQ(store.make_replaceable(checkpoints / "slot-0"), checkpoints / aside);
    EXPECT_EQ(test::read_bytes(checkpoints / aside / "README.txt"), "do not touch");
    save(3);
    EXPECT_EQ(steps(), (std::vector<Index>{3, 2}));
  }
  EXPECT_EQ(find_checkpoint(checkpoints / "slot-0.set-aside-1").position.step, 1);
  std::filesystem::remove_all(checkpoints / "slot-0");
  test::write_bytes(checkpoints / "slot-0", "a file");
  EXPECT_EQ(store.make_replaceable(checkpoints / "slot-0"), checkpoints / "slot-0.set-aside-3");
}

TEST_F(CheckpointStoreTest, ProtectsRunsFromImports) {
  save(1);
  write(run.path() / "weights", 5, false);
  write(run.path() / "state", 5);
  write(store.persistent(5), 5, false);
  check_may_be_replaced(run.path() / "new");
  check_may_be_replaced(run.path() / "weights");
  EXPECT_THROW(check_may_be_replaced(run.path() / "state"), FileError);
  EXPECT_THROW(check_may_be_replaced(checkpoints / "slot-0"), FileError);
  check_may_be_replaced(store.persistent(5));
  test::write_bytes(run.path() / "run.toml", "");
  EXPECT_THROW(check_may_be_replaced(store.persistent(5)), FileError);
  EXPECT_THROW(check_may_be_replaced(checkpoints / "new"), FileError);
  std::filesystem::create_directory_symlink(checkpoints, run.path() / "link");
  EXPECT_THROW(check_may_be_replaced(run.path() / "link" / "new"), FileError);
}

TEST_F(CheckpointStoreTest, CleansOnlyItsOwnTemporaryFolders) {
  save(1);
  std::filesystem::create_directories(checkpoints / ".other.writing");
  std::filesystem::create_directories(checkpoints / "persistent" / ".step-7.writing");
  std::filesystem::create_directories(checkpoints / "persistent" / "notes");
  store.clean();
  EXPECT_TRUE(std::filesystem::exists(checkpoints / ".other.writing"));
  EXPECT_TRUE(std::filesystem::exists(checkpoints / "persistent" / "notes"));
  EXPECT_FALSE(std::filesystem::exists(checkpoints / "persistent" / ".step-7.writing"));
}

}  // namespace
}  // namespace optimus
