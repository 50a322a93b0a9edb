// A pipeline over all ranks, or several over parts of them: the results of the plain loop, whatever the schedule, the overlap and the speed of stages.
#include "optimus/pipeline/executor.hpp"

#include <fmt/format.h>

#include <numeric>

#include "tests/support/mpi/mpi_world.hpp"
#include "tests/support/pipeline_testing.hpp"

namespace optimus::pipeline::test {
namespace {

using optimus::test::world;

struct Case {
  const char* name;
  Index V, M;
};
/// Of P stages: also fewer micro-batches than stages.
std::vector<Case> cases(Index P) {
  return {{"gpipe", 1, 1},
          {"gpipe", 1, 5},
          {"1f1b", 1, 1},
          {"1f1b", 1, 2},
          {"1f1b", 1, 9},
          {"zero_bubble", 1, 1},
          {"zero_bubble", 1, 3},
          {"zero_bubble", 1, 9},
          {"interleaved", 1, 2 * P},
          {"interleaved", 2, P},
          {"interleaved", 2, 3 * P},
          {"interleaved", 3, 2 * P}};
}

/// Runs the case twice with the same executor and compares this stage's weights.
template <class Work>
void expect_results_of_plain_loop(Communicator& pp, const Case& c, Index width, bool overlap) {
  SCOPED_TRACE(fmt::format("{}, V {}, M {}, overlap {}", c.name, c.V, c.M, overlap));
  const Schedule schedule = build_schedule({c.name, pp.size(), c.V, c.M});
  Executor executor(schedule, pp, formats(width), overlap);
  const std::vector<Index> wanted = toy_weights(schedule.num_chunks(), c.M, width);
  for (int run = 0; run < 2; ++run) {
    Work work(schedule, pp.rank(), width);
    executor.run(work);
    for (Index chunk = 0; chunk < c.V; ++chunk)
      EXPECT_EQ(work.weights[static_cast<std::size_t>(chunk)], wanted[static_cast<std::size_t>(schedule.global_chunk(pp.rank(), chunk))])
          << "stage " << pp.rank() << ", chunk " << chunk;
    EXPECT_EQ(work.calls, schedule.actions[static_cast<std::size_t>(pp.rank())]);
  }
}

TEST(Pipeline, EveryScheduleGivesTheResultsOfThePlainLoop) {
  for (const Case& c : cases(world().size()))
    for (const bool overlap : {true, false}) expect_results_of_plain_loop<ToyWork>(world(), c, 7, overlap);
}

TEST(Pipeline, SlowStagesChangeNothing) {
  for (const Case& c : cases(world().size()))
    for (const bool overlap : {true, false}) expect_results_of_plain_loop<SlowWork>(world(), c, 7, overlap);
}

TEST(Pipeline, MessagesThatAreTakenOnlyWhenAskedForDoNotDeadlock) {
  // Far above what MPI sends without the receiver's help.
  for (const Case& c : cases(world().size()))
    for (const bool overlap : {true, false}) expect_results_of_plain_loop<ToyWork>(world(), c, 3'000, overlap);
}

TEST(Pipeline, SeveralPipelinesSideBySide) {
  if (world().size() < 4) return;  // two pipelines of two stages
  const auto pp = world().split(world().rank() % 2, world().rank(), "pp");
  for (const Case& c : cases(2)) expect_results_of_plain_loop<SlowWork>(*pp, c, 7, true);
}

TEST(Pipeline, ForwardAloneEndsWithTheOutputsOfThePlainLoop) {
  for (const Index V : {1, 2})
    for (const Index M : {1, 3, 8}) {
      const Schedule schedule = build_schedule({"forward", world().size(), V, M});
      Executor executor(schedule, world(), formats(6), true);
      ToyWork work(schedule, world().rank(), 6);
      executor.run(work);
      if (world().rank() < world().size() - 1) continue;
      ASSERT_EQ(work.outputs.size(), static_cast<std::size_t>(M * 6));
      for (Index n = 0; n < M * 6; ++n) {
        Index value = toy_input(n / 6, n % 6);
        for (Index g = 0; g < schedule.num_chunks(); ++g) value = ToyChunk{g}.forward(value);
        EXPECT_EQ(work.outputs[static_cast<std::size_t>(n)], value);
      }
    }
}

TEST(Pipeline, MessagesOfNoRowsPass) {
  const Schedule schedule = build_schedule({"1f1b", world().size(), 1, 3});
  const MessageFormats empty{.forward = {DType::kBF16, {0, 8}, 0}, .backward = {DType::kBF16, {0, 8}, 0}};
  struct Nothing : StageWork {
    void forward(const Action&, const StageMessage& received, const StageMessage&) override { num_rows += received.rows.count(); }
    void backward(const Action&, const StageMessage&, const StageMessage&) override {}
    void backward_input(const Action&, const StageMessage&, const StageMessage&) override {}
    void backward_weight(const Action&) override {}
    Index num_rows = 0;
  } work;
  Executor executor(schedule, world(), empty, true);
  EXPECT_NO_THROW(executor.run(work));
}

TEST(Pipeline, WaitingIsCounted) {
  // Every stage but the last has its gradients to wait for while the last one sleeps.
  struct LastSleeps : ToyWork {
    using ToyWork::ToyWork;
    void before(const Action& a) override {
      ToyWork::before(a);
      if (world().rank() == world().size() - 1) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  };
  const Schedule schedule = build_schedule({"1f1b", world().size(), 1, 2});
  Executor executor(schedule, world(), formats(3), true);
  LastSleeps work(schedule, world().rank(), 3);
  executor.run(work);
  if (world().rank() < world().size() - 1) {
    EXPECT_GT(executor.waited_s(), 0.015);
  }
}

TEST(Pipeline, ProgressMayBeAskedForAtAnyTime) {
  struct Asking : ToyWork {
    using ToyWork::ToyWork;
    void before(const Action& a) override {
      ToyWork::before(a);
      executor->progress();
    }
    Executor* executor = nullptr;
  };
  const Schedule schedule = build_schedule({"zero_bubble", world().size(), 1, 6});
  Executor executor(schedule, world(), formats(9), true);
  executor.progress();
  Asking work(schedule, world().rank(), 9);
  work.executor = &executor;
  executor.run(work);
  EXPECT_EQ(work.weights[0], toy_weights(world().size(), 6, 9)[static_cast<std::size_t>(world().rank())]);
}

}  // namespace
}  // namespace optimus::pipeline::test
