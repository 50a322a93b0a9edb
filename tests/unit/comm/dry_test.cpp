#include "optimus/comm/dry/dry.hpp"

#include <gtest/gtest.h>

#include "optimus/base/error.hpp"

namespace optimus {
namespace {

View nothing(DType dtype, Index count) { return {nullptr, dtype, {count}}; }

TEST(DryGroup, AnswersEveryCollectiveWithoutTouchingMemory) {
  const auto comm = make_dry_communicator(12'288, 77, "world");
  EXPECT_EQ(comm->size(), 12'288);
  EXPECT_EQ(comm->rank(), 77);
  EXPECT_EQ(comm->name(), "world");
  EXPECT_TRUE(comm->is_dry());
  const Index many = Index{1} << 40;
  comm->all_reduce(nothing(DType::kF32, many), Reduce::kSum);
  comm->reduce_scatter(nothing(DType::kF32, many * 12'288), nothing(DType::kF32, many));
  comm->all_gather(nothing(DType::kU8, many), nothing(DType::kU8, many * 12'288));
  comm->broadcast(nothing(DType::kBF16, many), 12'287);
  comm->send(nothing(DType::kBF16, many), 0, 3);
  comm->receive(nothing(DType::kBF16, many), 0, 3);
  comm->barrier();
  std::vector<Index> counts(12'288, 2);
  comm->all_gather_v(nothing(DType::kF32, 2), nothing(DType::kF32, 24'576), counts);
  comm->all_to_all_v(nothing(DType::kF32, 24'576), counts, nothing(DType::kF32, 24'576), counts);
}

TEST(DryGroup, RequestsAreDoneWhenTheyStart) {
  const auto comm = make_dry_communicator(4, 1, "dp");
  std::vector<std::unique_ptr<Request>> requests;
  requests.push_back(comm->start_all_reduce(nothing(DType::kF32, 5), Reduce::kMax));
  requests.push_back(comm->start_reduce_scatter(nothing(DType::kF32, 20), nothing(DType::kF32, 5)));
  requests.push_back(comm->start_all_gather(nothing(DType::kF32, 5), nothing(DType::kF32, 20)));
  requests.push_back(comm->start_send(nothing(DType::kF32, 5), 0, 0));
  requests.push_back(comm->start_receive(nothing(DType::kF32, 5), 2, 0));
  for (const auto& request : requests) {
    EXPECT_TRUE(request->test());
    request->wait();
  }
}

TEST(DryGroup, ChecksArgumentsAsRealGroupsDo) {
  const auto comm = make_dry_communicator(4, 1, "dp");
  EXPECT_THROW(comm->all_reduce(nothing(DType::kF16, 5), Reduce::kSum), UnsupportedError);
  EXPECT_THROW(comm->reduce_scatter(nothing(DType::kF32, 21), nothing(DType::kF32, 5)), ShapeError);
  EXPECT_THROW(comm->all_gather(nothing(DType::kF32, 5), nothing(DType::kBF16, 20)), ShapeError);
  EXPECT_THROW((void)comm->start_send(nothing(DType::kF32, 5), 4, 0), ShapeError);
  EXPECT_THROW((void)comm->start_receive(nothing(DType::kF32, 5), 0, -1), ShapeError);
  EXPECT_THROW(comm->broadcast(nothing(DType::kF32, 5), -1), ShapeError);
}

TEST(DryGroup, SubgroupsKeepTheOrderOfTheirMembers) {
  const auto comm = make_dry_communicator(6, 4, "world");
  const std::vector<Index> members = {5, 0, 4};
  const auto group = comm->subgroup(members, "tp");
  EXPECT_EQ(group->size(), 3);
  EXPECT_EQ(group->rank(), 2);
  EXPECT_EQ(group->name(), "tp");
  EXPECT_EQ(comm->split_by_node()->size(), 6);
  EXPECT_THROW((void)comm->subgroup(std::vector<Index>{0, 1}, "tp"), ShapeError);
}

TEST(DryGroup, RefusesToSplitByColorsThatNobodyCanTell) { EXPECT_THROW((void)make_dry_communicator(2, 0)->split(0, 0, "half"), UnsupportedError); }

TEST(DryGroup, RefusesRanksOutsideTheGroup) {
  EXPECT_THROW((void)make_dry_communicator(0, 0), ConfigError);
  EXPECT_THROW((void)make_dry_communicator(4, 4), ConfigError);
  EXPECT_THROW((void)make_dry_communicator(4, -1), ConfigError);
}

}  // namespace
}  // namespace optimus
