#include <set>

#include "optimus/comm/axis_group.hpp"
#include "support.hpp"

namespace optimus::test {
namespace {

/// Sum over the group of 2^(rank in the world): tells exactly who is in it.
Index members_of(Communicator& group) {
  std::int64_t bit = std::int64_t{1} << world().rank();
  group.all_reduce({reinterpret_cast<std::byte*>(&bit), DType::kI64, {1}}, Reduce::kSum);
  return bit;
}

TEST(Groups, SplitGathersEqualColorsOrderedByKey) {
  const Index rank = world().rank(), size = world().size();
  const auto group = world().split(rank % 2, -rank, "parity");
  Index wanted = 0, above = 0;
  for (Index r = rank % 2; r < size; r += 2) {
    wanted += Index{1} << r;
    above += r > rank ? 1 : 0;
  }
  EXPECT_EQ(group->name(), "parity");
  EXPECT_EQ(group->rank(), above);
  EXPECT_EQ(members_of(*group), wanted);
}

TEST(Groups, AllTestRanksAreOnOneNode) {
  const auto node = world().split_by_node();
  EXPECT_EQ(node->size(), world().size());
  EXPECT_EQ(node->rank(), world().rank());
}

TEST(Groups, SubgroupIsMadeByItsMembersAloneInTheirOrder) {
  if (world().size() > 1 && world().rank() < 2) {
    const Index members[] = {1, 0};
    const auto pair = world().subgroup(members, "pair");
    EXPECT_EQ(pair->size(), 2);
    EXPECT_EQ(pair->rank(), 1 - world().rank());
    EXPECT_EQ(members_of(*pair), 3);
  }
  const Index alone[] = {world().rank()};
  const auto single = world().subgroup(alone, "single");
  EXPECT_EQ(members_of(*single), Index{1} << world().rank());
}

TEST(Groups, SubgroupRefusesListsThatCannotBe) {
  const Index rank = world().rank();
  const Index twice[] = {rank, rank}, outside[] = {rank, world().size()}, without[] = {(rank + 1) % world().size()};
  EXPECT_THROW((void)world().subgroup(twice, "x"), ShapeError);
  EXPECT_THROW((void)world().subgroup(outside, "x"), ShapeError);
  if (world().size() > 1) {
    EXPECT_THROW((void)world().subgroup(without, "x"), ShapeError);
  }
}

TEST(Groups, AxesOfTheMeshReachTheRanksTheMeshSays) {
  const Index size = world().size();
  for (const char* order : {"dp-pp-ep-tp", "pp-dp-ep-tp"})
    for (const Index tp : {Index{1}, Index{2}})
      for (const Index pp : {Index{1}, Index{2}}) {
        if (size % (tp * pp) != 0) continue;
        const Mesh mesh({.tp = tp, .pp = pp, .order = order}, size);
        for (const Axis axis : kAxes) {
          const auto group = make_axis_group(world(), mesh, axis);
          Index wanted = 0;
          for (Index m = 0; m < mesh.group_size(axis); ++m) wanted += Index{1} << mesh.member_rank(world().rank(), axis, m);
          EXPECT_EQ(group->name(), axis_name(axis));
          EXPECT_EQ(group->rank(), mesh.member_index(world().rank(), axis));
          EXPECT_EQ(members_of(*group), wanted);
        }
      }
  EXPECT_THROW((void)make_axis_group(world(), Mesh({}, size + 1), Axis::kDp), ConfigError);
}

TEST(Groups, CollectivesOfTwoGroupsMayBeUnderWayTogether) {
  const auto group = world().split(world().rank() % 2, world().rank(), "half");
  Tensor a(DType::kF32, 5003), b(DType::kF32, 5003);
  a.fill_numbers(world().rank());
  b.fill_numbers(world().rank());
  Tensor a_wanted = a, b_wanted = b;
  world().all_reduce(a_wanted.view(), Reduce::kSum);
  group->all_reduce(b_wanted.view(), Reduce::kSum);
  auto first = world().start_all_reduce(a.view(), Reduce::kSum);
  auto second = group->start_all_reduce(b.view(), Reduce::kSum);
  second->wait();
  first->wait();
  EXPECT_EQ(a, a_wanted);
  EXPECT_EQ(b, b_wanted);
}

class Counter final : public Progress {
 public:
  explicit Counter(Communicator& group) : group_(group) {}
  void advance() override {
    ++calls;
    group_.poll();  // does not come back here
  }
  Index calls = 0;

 private:
  Communicator& group_;
};

TEST(Groups, WaitingInAnyGroupAdvancesWhatWasAdded) {
  const auto group = world().split(0, world().rank(), "other");
  Counter counter(*group);
  group->add_progress(counter);
  world().poll();
  EXPECT_EQ(counter.calls, 1);
  world().barrier();
  EXPECT_GE(counter.calls, world().size() > 1 ? 2 : 1);
  const Index calls = counter.calls;
  group->remove_progress(counter);
  world().barrier();
  EXPECT_EQ(counter.calls, calls);
}

TEST(Groups, TuningChangesNoBit) {
  std::vector<Tensor> results;
  for (const MpiTuning& tuning : {MpiTuning{}, MpiTuning{.message_bytes = 64, .staging_bytes = 1, .gathered_reduce_bytes = 0},
                                  MpiTuning{.gathered_reduce_bytes = 1 << 20, .direct_members = 1}}) {
    mpi().set_tuning(tuning);
    Tensor& data = results.emplace_back(DType::kBF16, 3001);
    data.fill_numbers(world().rank());
    world().all_reduce(data.view(), Reduce::kSum);
  }
  mpi().set_tuning({});
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

}  // namespace
}  // namespace optimus::test
