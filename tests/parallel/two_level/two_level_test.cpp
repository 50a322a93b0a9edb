// Two levels on one machine: tests say which ranks count as one node.
#include "optimus/comm/two_level/two_level.hpp"

#include <cmath>

#include "optimus/comm/delayed/delayed.hpp"
#include "tests/parallel/comm/support.hpp"

namespace optimus::test {
namespace {

/// How ranks are put on nodes, and the order of members in the group.
struct Nodes {
  std::string name;
  std::function<Index(Index rank)> node_of;
  bool is_backwards = false;
};

NodeSplit split_by(const std::function<Index(Index)>& node_of) {
  return [node_of](Communicator& group) { return group.split(node_of(world().rank()), group.rank(), "node"); };
}

class TwoLevel : public testing::TestWithParam<Nodes> {
 protected:
  void SetUp() override { comm_ = make({}); }
  [[nodiscard]] std::unique_ptr<Communicator> make(const TwoLevelTuning& tuning) {
    auto flat = world().split(0, GetParam().is_backwards ? -world().rank() : world().rank(), "dp");
    auto node = split_by(GetParam().node_of)(*flat);
    return make_two_level_communicator(std::move(flat), std::move(node), tuning);
  }
  [[nodiscard]] Index rank() const { return comm_->rank(); }
  [[nodiscard]] Index size() const { return comm_->size(); }
  std::unique_ptr<Communicator> comm_;
};

/// Whole numbers small enough that every sum of them is exact, in any order, in bf16 too.
void fill_whole(Tensor& tensor, Index member) {
  for (Index i = 0; i < tensor.count(); ++i) tensor.set(i, static_cast<double>((member * 7 + i * 3) % 11 - 5));
}
std::vector<Tensor> whole_inputs(DType dtype, Index count, Index size) {
  std::vector<Tensor> inputs;
  for (Index m = 0; m < size; ++m) fill_whole(inputs.emplace_back(dtype, count), m);
  return inputs;
}

TEST_P(TwoLevel, ExactSumsAreThoseOfTheFlatGroupBitForBit) {
  for (const DType dtype : kSummedTypes)
    for (const Index count : {0, 1, 127, 4099}) {
      for (const Reduce reduce : {Reduce::kSum, Reduce::kMax, Reduce::kMin}) {
        std::vector<Tensor> inputs = whole_inputs(dtype, count, size());
        Tensor summed = inputs[static_cast<std::size_t>(rank())];
        comm_->all_reduce(summed.view(), reduce);
        ASSERT_EQ(summed, reduced(inputs, dtype, 0, count, reduce)) << dtype_name(dtype) << " " << count;
      }
      std::vector<Tensor> inputs = whole_inputs(dtype, count * size(), size());
      Tensor scattered(dtype, count);
      comm_->reduce_scatter(inputs[static_cast<std::size_t>(rank())].view(), scattered.view());
      ASSERT_EQ(scattered, reduced(inputs, dtype, rank() * count, count, Reduce::kSum)) << dtype_name(dtype) << " " << count;
    }
}

TEST_P(TwoLevel, PiecesPutTogetherAreTheWhole) {
  const Index count = 1031;
  const auto pieces = make({.piece_bytes = 3000});  // more of them than may be under way
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    std::vector<Tensor> inputs = whole_inputs(dtype, count * size(), size());
    Tensor& mine = inputs[static_cast<std::size_t>(rank())];
    Tensor scattered(dtype, count), gathered(dtype, count * size());
    pieces->reduce_scatter(mine.view(), scattered.view());
    EXPECT_EQ(scattered, reduced(inputs, dtype, rank() * count, count, Reduce::kSum)) << dtype_name(dtype);
    pieces->all_gather(scattered.view(), gathered.view());
    EXPECT_EQ(gathered, reduced(inputs, dtype, 0, count * size(), Reduce::kSum)) << dtype_name(dtype);
  }
}

TEST_P(TwoLevel, GathersPutThePartsInMemberOrder) {
  for (const DType dtype : kAllTypes)
    for (const Index count : {0, 1, 127, 1031}) {
      Tensor wanted(dtype, count * size()), output(dtype, count * size());
      for (Index m = 0; m < size(); ++m) {
        Tensor part(dtype, count);
        part.fill_bytes(m);
        if (count > 0) std::memcpy(wanted.part(m * count, (m + 1) * count).data(), part.view().data(), static_cast<std::size_t>(part.view().bytes()));
      }
      Tensor input(dtype, count);
      input.fill_bytes(rank());
      comm_->all_gather(input.view(), output.view());
      ASSERT_EQ(output, wanted) << dtype_name(dtype) << " " << count;
      Tensor in_place(dtype, count * size());
      const View own = in_place.part(rank() * count, (rank() + 1) * count);
      if (count > 0) std::memcpy(own.data(), input.view().data(), static_cast<std::size_t>(own.bytes()));
      comm_->all_gather(own, in_place.view());
      ASSERT_EQ(in_place, wanted) << dtype_name(dtype) << " " << count;
    }
}

TEST_P(TwoLevel, ReduceScatterMayWriteIntoItsOwnPartOfTheInput) {
  const Index count = 1031;
  std::vector<Tensor> inputs = whole_inputs(DType::kF32, count * size(), size());
  Tensor mine = inputs[static_cast<std::size_t>(rank())];
  const View own = mine.part(rank() * count, (rank() + 1) * count);
  make({.piece_bytes = 4000})->reduce_scatter(mine.view(), own);
  Tensor wanted = reduced(inputs, DType::kF32, rank() * count, count, Reduce::kSum);
  EXPECT_EQ(std::memcmp(own.data(), wanted.view().data(), static_cast<std::size_t>(own.bytes())), 0);
}

TEST_P(TwoLevel, AnySumIsThatOfTheFlatGroupToRoundingAndRepeatsBitForBit) {
  const Index count = 4099;
  const auto pieces = make({.piece_bytes = 5000});
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16}) {
    std::vector<Tensor> inputs;
    for (Index m = 0; m < size(); ++m)
      for (Index i = (inputs.emplace_back(dtype, count), 0); i < count; ++i) inputs.back().set(i, std::fmod(Tensor::number(m, i), 1.0));
    Tensor first = inputs[static_cast<std::size_t>(rank())];
    comm_->all_reduce(first.view(), Reduce::kSum);
    Tensor flat = reduced(inputs, dtype, 0, count, Reduce::kSum);
    // Values below 1, at most a rounding a level and a member: of sums below `size`.
    const double bound = 2.0 * static_cast<double>(size() * size()) * (dtype == DType::kF32 ? 0x1p-24 : dtype == DType::kF64 ? 0x1p-53 : 0x1p-9);
    const auto value = [dtype](Tensor& t, Index i) {
      if (dtype == DType::kF32) return static_cast<double>(t.view().as<float>()[i]);
      if (dtype == DType::kF64) return t.view().as<double>()[i];
      return static_cast<double>(static_cast<float>(t.view().as<BFloat16>()[i]));
    };
    for (Index i = 0; i < count; ++i) ASSERT_NEAR(value(first, i), value(flat, i), bound) << i;
    for (int repetition = 0; repetition < 3; ++repetition) {
      Tensor again = inputs[static_cast<std::size_t>(rank())];
      (repetition == 1 ? *pieces : *comm_).all_reduce(again.view(), Reduce::kSum);
      ASSERT_EQ(again, first);
    }
  }
}

TEST_P(TwoLevel, ManyMayBeUnderWayAndEachRankMayWaitInItsOwnOrder) {
  const auto other = make({.piece_bytes = 600});
  const Index count = 700;
  std::vector<Tensor> inputs = whole_inputs(DType::kF32, count * size(), size());
  Tensor& mine = inputs[static_cast<std::size_t>(rank())];
  std::vector<Tensor> scattered(3, Tensor(DType::kF32, count)), summed(3, mine);
  std::vector<std::unique_ptr<Request>> requests;
  for (std::size_t i = 0; i < 3; ++i) {
    requests.push_back(comm_->start_reduce_scatter(mine.view(), scattered[i].view()));
    requests.push_back(other->start_all_reduce(summed[i].view(), Reduce::kSum));
  }
  Tensor gathered(DType::kF32, count * size() * size()), also_gathered = gathered;
  requests.push_back(other->start_all_gather(mine.view(), gathered.view()));
  requests.push_back(comm_->start_all_gather(mine.view(), also_gathered.view()));
  if (rank() % 2 == 0) {
    for (auto& request : requests) request->wait();
  } else {
    while (!requests[3]->test()) continue;
    for (std::size_t i = requests.size(); i-- > 0;) requests[i]->wait();
  }
  const Tensor wanted_part = reduced(inputs, DType::kF32, rank() * count, count, Reduce::kSum);
  const Tensor wanted = reduced(inputs, DType::kF32, 0, count * size(), Reduce::kSum);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(scattered[i], wanted_part);
    EXPECT_EQ(summed[i], wanted);
  }
  EXPECT_EQ(gathered, also_gathered);
}

TEST_P(TwoLevel, PollAloneBringsATransferToItsEnd) {
  std::vector<Tensor> inputs = whole_inputs(DType::kF32, 5000, size());
  Tensor mine = inputs[static_cast<std::size_t>(rank())];
  const Tensor wanted = reduced(inputs, DType::kF32, 0, 5000, Reduce::kSum);
  const auto request = comm_->start_all_reduce(mine.view(), Reduce::kSum);
  while (!(mine == wanted)) world().poll();
  request->wait();
}

std::function<Index(Index)> nodes_of(std::vector<Index> nodes) {
  return [nodes](Index rank) { return nodes[static_cast<std::size_t>(rank) % nodes.size()]; };
}
const Nodes kNodes[] = {
    {"halves", [](Index rank) { return rank < (world().size() + 1) / 2 ? Index{0} : Index{1}; }},
    {"round_robin_of_two_backwards", nodes_of({0, 1}), true},
    {"uneven", nodes_of({0, 0, 1, 0, 2, 0})},
    {"uneven_backwards", nodes_of({3, 1, 1, 1}), true},
    {"one_node", nodes_of({0})},
    {"nodes_of_one", [](Index rank) { return rank; }},
};
INSTANTIATE_TEST_SUITE_P(All, TwoLevel, testing::ValuesIn(kNodes), [](const auto& test) { return test.param.name; });

TEST(TwoLevelFailures, AnAbsentMemberIsAnErrorForThoseWhoWaitForIt) {
  const Index size = world().size();
  if (size < 3) return;
  auto flat = world().split(0, world().rank(), "dp");
  auto node = split_by([size](Index rank) { return rank < size - 2 ? Index{0} : Index{1}; })(*flat);
  auto comm = make_two_level_communicator(std::move(flat), std::move(node));
  mpi().set_time_limit(0.2);
  const Index absent = size - 1;
  if (world().rank() != absent) {
    Tensor data(DType::kF32, 5000);
    try {
      comm->all_reduce(data.view(), Reduce::kSum);
      ADD_FAILURE() << "nothing was thrown on rank " << world().rank();
    } catch (const CommError& error) {
      EXPECT_NE(std::string(error.what()).find("no progress for"), std::string::npos) << error.what();
    }
  }
  // Its messages stay behind: MPI may give the mark of a freed group to the next one, which would receive them.
  (void)comm.release();
  mpi().set_time_limit(kTimeLimit);
  world().barrier();
}

TEST(ReductionGroup, HasTwoLevelsWhereSeveralNodesAndSeveralMembersOfOneTakePart) {
  // Seen by the groups that it is made of: with a link for each name, totals list them.
  const auto names = [](std::string_view two_level, const std::function<Index(Index)>& node_of) {
    const auto comm = make_delayed_communicator(world(), [](std::string_view) { return Link{}; });
    const auto group = make_reduction_group(*comm, Mesh({}, world().size()), Axis::kDp, two_level, split_by(node_of));
    EXPECT_EQ(group->name(), "dp");
    EXPECT_EQ(group->rank(), world().rank());
    bool has_two_levels = false;
    for (const DelayTotals& totals : comm->totals()) has_two_levels = has_two_levels || totals.group == "dp_inside";
    return has_two_levels;
  };
  const auto halves = kNodes[0].node_of;
  const Index size = world().size();
  EXPECT_EQ(names("auto", halves), size > 2);
  EXPECT_EQ(names("on", halves), size > 1);
  EXPECT_FALSE(names("off", halves));
  EXPECT_FALSE(names("auto", nodes_of({0})));
  EXPECT_EQ(names("on", nodes_of({0})), size > 1);
  EXPECT_FALSE(names("auto", [](Index rank) { return rank; }));
}

TEST(ReductionGroup, AsksTheMachineWhereNothingElseIsSaid) {
  const auto group = make_reduction_group(world(), Mesh({}, world().size()), Axis::kDp, "on");
  std::int64_t one = 1;
  group->all_reduce({reinterpret_cast<std::byte*>(&one), DType::kI64, {1}}, Reduce::kSum);
  EXPECT_EQ(one, world().size());
}

}  // namespace
}  // namespace optimus::test
