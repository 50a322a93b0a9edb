#include "optimus/base/timer.hpp"
#include "support.hpp"

namespace optimus::test {
namespace {

template <class E>
void expect_agreed(Index failing) {
  const std::string words = "[data] shard 7 of rank " + std::to_string(failing) + " is torn";
  try {
    agree(world(), [&] {
      if (world().rank() >= failing) throw E("[data] shard 7 of rank " + std::to_string(world().rank()) + " is torn");
    });
    FAIL() << "nothing was thrown on rank " << world().rank();
  } catch (const E& error) {
    EXPECT_EQ(error.what(), world().size() > 1 ? "rank " + std::to_string(failing) + ": " + words : words);
  }
}

TEST(Failures, AgreeThrowsTheErrorOfTheFirstFailingRankOnAll) {
  for (Index failing = 0; failing < world().size(); ++failing) {
    expect_agreed<DataError>(failing);
    expect_agreed<ShapeError>(failing);
    expect_agreed<CheckpointError>(failing);
  }
}

TEST(Failures, AgreeReturnsWhereNobodyFailed) {
  EXPECT_NO_THROW(agree(world(), [] {}));
}

TEST(Failures, AgreeNamesTheOneRankThatFailed) {
  for (Index failing = 0; failing < world().size(); ++failing) {
    try {
      agree(world(), [&] {
        if (world().rank() == failing) throw NumericError("loss is not a number");
      });
      FAIL();
    } catch (const NumericError& error) {
      EXPECT_NE(std::string(error.what()).find(world().size() > 1 ? "rank " + std::to_string(failing) + ": loss" : "loss"), std::string::npos);
      EXPECT_EQ(error.code(), ExitCode::kNonFinite);
    }
  }
}

TEST(Failures, ViewsThatDoNotFitAreRefusedNamingTheCounts) {
  Tensor three(DType::kF32, 3), other(DType::kF32, 3 * world().size() + 1), whole(DType::kF64, 3 * world().size());
  const std::vector<Index> counts(static_cast<std::size_t>(world().size()), 2);
  EXPECT_THROW(world().all_gather(three.view(), other.view()), ShapeError);
  EXPECT_THROW(world().all_gather(three.view(), whole.view()), ShapeError);
  EXPECT_THROW(world().reduce_scatter(other.view(), three.view()), ShapeError);
  EXPECT_THROW(world().all_gather_v(three.view(), other.view(), counts), ShapeError);
  EXPECT_THROW((void)world().start_all_gather_v(three.view(), other.view(), counts), ShapeError);
  EXPECT_THROW((void)world().start_reduce_scatter_v(other.view(), three.view(), counts, Reduce::kSum), ShapeError);
  EXPECT_THROW(world().all_to_all_v(three.view(), counts, other.view(), counts), ShapeError);
  EXPECT_THROW(world().broadcast(three.view(), world().size()), ShapeError);
  EXPECT_THROW(world().send(three.view(), -1, 0), ShapeError);
  EXPECT_THROW(world().send(three.view(), 0, -1), ShapeError);
  EXPECT_THROW(world().all_reduce(Tensor(DType::kF16, 1).view(), Reduce::kSum), UnsupportedError);
}

/// What every rank but `absent` is told when `absent` never joins in.
template <class Action>
void expect_late(Index absent, const std::string& collective, Action&& action) {
  // Messages of the half-done collective stay behind in its group. MPI may give the mark of a freed group to the next one, which would then
  // receive them: these groups are kept to the end.
  static std::vector<std::unique_ptr<Communicator>> left_behind;
  left_behind.push_back(world().split(0, world().size() - world().rank(), "backwards"));
  Communicator* group = left_behind.back().get();
  group->set_context("step 12");
  mpi().set_time_limit(0.2);
  if (world().rank() != absent) {
    Timer timer;
    try {
      action(*group);
      ADD_FAILURE() << "nothing was thrown on rank " << world().rank();
    } catch (const CommError& error) {
      const std::string message = error.what();
      for (const std::string& part : {collective + " over backwards", std::string("at step 12"), "(rank " + std::to_string(absent) + " of the world)"})
        EXPECT_NE(message.find(part), std::string::npos) << message;
    }
    EXPECT_LT(timer.seconds(), 10);
  }
  mpi().set_time_limit(kTimeLimit);
  group->set_context("");
  world().barrier();
}

TEST(Failures, EveryWaitEndsAfterTheLimitNamingTheAbsentRank) {
  if (world().size() == 1) return;  // nobody to wait for
  for (Index absent = 0; absent < world().size(); ++absent) {
    expect_late(absent, "barrier", [](Communicator& c) { c.barrier(); });
    expect_late(absent, "all_reduce", [](Communicator& c) { c.all_reduce(Tensor(DType::kF32, 100'000).view(), Reduce::kSum); });
    expect_late(absent, "reduce_scatter", [](Communicator& c) {
      Tensor input(DType::kBF16, 2 * c.size()), output(DType::kBF16, 2);
      c.start_reduce_scatter(input.view(), output.view())->wait();
    });
    expect_late(absent, "all_gather", [](Communicator& c) {
      Tensor input(DType::kBF16, 2), output(DType::kBF16, 2 * c.size());
      c.all_gather(input.view(), output.view());
    });
    const std::vector<Index> twos(static_cast<std::size_t>(world().size()), 2);
    expect_late(absent, "all_gather_v", [&](Communicator& c) {
      Tensor input(DType::kU8, 2), output(DType::kU8, 2 * c.size());
      c.all_gather_v(input.view(), output.view(), twos);
    });
    expect_late(absent, "all_to_all_v", [&](Communicator& c) {
      Tensor input(DType::kF32, 2 * c.size()), output(DType::kF32, 2 * c.size());
      c.all_to_all_v(input.view(), twos, output.view(), twos);
    });
  }
}

TEST(Failures, ReceivingFromASilentRankEndsAfterTheLimitNamingIt) {
  if (world().size() == 1) return;
  for (Index absent = 0; absent < world().size(); ++absent) {
    const auto from = [&](Communicator& c) { return c.size() - 1 - absent; };  // the groups of this test count backwards
    expect_late(absent, "receive", [&](Communicator& c) { c.receive(Tensor(DType::kF32, 3).view(), from(c), 0); });
    expect_late(absent, "broadcast", [&](Communicator& c) { c.broadcast(Tensor(DType::kF32, 3).view(), from(c)); });
  }
}

TEST(Failures, AShorterMessageThanExpectedIsAnError) {
  if (world().size() == 1) return;
  const auto apart = mpi().world();
  Tensor five(DType::kF32, 5), three(DType::kF32, 3);
  if (apart->rank() == 0) apart->send(three.view(), 1, 9);
  if (apart->rank() == 1) {
    try {
      apart->receive(five.view(), 0, 9);
      ADD_FAILURE();
    } catch (const CommError& error) {
      EXPECT_NE(std::string(error.what()).find("rank 0 sent 12 bytes, 20 were expected"), std::string::npos) << error.what();
    }
  }
}

TEST(Failures, TuningOutOfRangeIsRefused) {
  EXPECT_THROW(mpi().set_tuning({.message_bytes = 0}), ConfigError);
  EXPECT_THROW(mpi().set_tuning({.message_bytes = Index{1} << 31}), ConfigError);
}

}  // namespace
}  // namespace optimus::test
