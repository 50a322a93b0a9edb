// Folders that an ordinary user cannot remove or look into: one of them must not end a run whose other checkpoints are good.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "optimus/checkpoint/store.hpp"
#include "optimus/comm/self/self.hpp"
#include "tests/support/checkpoint_testing.hpp"

namespace optimus {
namespace {

using test::TemporaryFolder;

constexpr auto kReadOnly = std::filesystem::perms(0555), kShut = std::filesystem::perms::none, kUsual = std::filesystem::perms(0755);

/// Whether `action` is true of a process without root's rights, to whom permissions mean something.
template <class Action> bool holds_for_an_ordinary_user(Action action) {
  const pid_t child = fork();
  if (child == 0) {
    constexpr int kNobody = 65534;
    if (geteuid() == 0 && (setgid(kNobody) != 0 || setuid(kNobody) != 0)) _exit(3);
    try {
      _exit(action() ? 0 : 1);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      _exit(2);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void write(const std::filesystem::path& folder, Index step) {
  const auto world = make_self_communicator();
  const test::ToyState state(static_cast<float>(step));
  write_checkpoint(*world, folder, test::toy_info(step), test::cut(state, test::layouts()[0]).chunks);
}
Index step_of(const std::filesystem::path& folder) { return inspect_checkpoint(folder).position.step; }

TEST(Permissions, WhatCannotBeRemovedIsSetAsideAndStopsNoSave) {
  EXPECT_TRUE(holds_for_an_ordinary_user([] {
    const TemporaryFolder run;
    const CheckpointStore store(run.path());
    const auto slots = run.path() / "checkpoints", slot = slots / "slot-0", stubborn = slot / "ranks-0007";
    write(slot, 1);
    std::filesystem::create_directory(stubborn);
    test::write_bytes(stubborn / "held", "by somebody");
    std::filesystem::permissions(stubborn, kReadOnly);
    write(slot, 2);
    const bool is_saved = step_of(slot) == 2;
    write(slot, 3);
    store.clean();
    const auto aside = slots / ".slot-0.old.set-aside-1";
    const bool goes_on = step_of(slot) == 3 && !std::filesystem::exists(slots / ".slot-0.old") && std::filesystem::exists(aside / "ranks-0007/held");
    std::filesystem::permissions(aside / "ranks-0007", kUsual);
    return is_saved && goes_on;
  }));
}

TEST(Permissions, ASlotThatCannotBeLookedIntoIsSetAside) {
  EXPECT_TRUE(holds_for_an_ordinary_user([] {
    const TemporaryFolder run;
    const CheckpointStore store(run.path());
    const auto slot = run.path() / "checkpoints/slot-0";
    write(slot, 1);
    std::filesystem::permissions(slot, kShut);
    const auto aside = store.make_replaceable(slot);
    write(slot, 2);
    if (aside) std::filesystem::permissions(*aside, kUsual);
    return aside && step_of(slot) == 2 && step_of(*aside) == 1;
  }));
}

TEST(Permissions, OnePersistentCheckpointThatStaysKeepsNoOther) {
  EXPECT_TRUE(holds_for_an_ordinary_user([] {
    const TemporaryFolder run;
    const CheckpointStore store(run.path());
    for (const Index step : {10, 20, 30}) write(store.persistent(step), step);
    std::filesystem::permissions(store.persistent(10), kReadOnly);
    std::vector<std::string> kept_back;
    const auto removed = store.prune_persistent(30, {.last = 1, .every = 0}, kept_back);
    std::filesystem::permissions(store.persistent(10), kUsual);
    return removed == std::vector<Index>{20} && kept_back.size() == 1 && kept_back[0].find("step-10") != std::string::npos;
  }));
}

}  // namespace
}  // namespace optimus
