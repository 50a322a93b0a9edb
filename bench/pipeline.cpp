// The idle time of pipeline schedules, measured, against its formula: stages that sleep for equal times instead of computing.
//
//   mpirun -n 4 build/bench/bench_pipeline [MILLISECONDS of a forward, 12 if not given]
//
// Sleeping stages need no core each, so that two cores measure four stages; other programs only ever make a run longer, so the shortest of several counts.
// On a busy machine start it with `chrt -r 20`: stages then wake up in time.

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "optimus/base/timer.hpp"
#include "optimus/comm/mpi/environment.hpp"
#include "optimus/pipeline/executor.hpp"
#include "optimus/pipeline/simulate.hpp"

namespace optimus::bench {
namespace {

using namespace optimus::pipeline;

constexpr int kRuns = 5;

/// Sleeps until a moment, so that what comes between two sleeps does not add up within an action.
class SleepingWork : public StageWork {
 public:
  explicit SleepingWork(const StageTimes& times) : times_(times) {}
  void forward(const Action&, const StageMessage&, const StageMessage& sent) override { work(times_.forward, sent); }
  void backward(const Action&, const StageMessage&, const StageMessage& sent) override { work(times_.backward_input + times_.backward_weight, sent); }
  void backward_input(const Action&, const StageMessage&, const StageMessage& sent) override { work(times_.backward_input, sent); }
  void backward_weight(const Action&) override { work(times_.backward_weight, {}); }
  double busy_s = 0;

 private:
  void work(double seconds, const StageMessage& sent) {
    const Timer timer;
    if (sent.rows.exists()) std::fill_n(sent.rows.data(), sent.rows.bytes(), std::byte{1});
    const double rest = seconds - timer.seconds();
    const timespec nap{0, static_cast<long>(std::max(0.0, rest) * 1e9)};
    nanosleep(&nap, nullptr);
    busy_s += timer.seconds();
  }
  StageTimes times_;
};

struct Measured {
  double bubble = 1, total_s = 1e30;
};

/// Of the shortest of several runs; the same on all ranks.
Measured measure(const Schedule& schedule, const StageTimes& times, Communicator& world, bool overlap) {
  const MessageFormat rows{DType::kBF16, {256, 1024}, 64};
  Executor executor(schedule, world, {rows, rows}, overlap);
  Measured best;
  for (int run = 0; run < kRuns; ++run) {
    SleepingWork work(times);
    world.barrier();
    const Timer timer;
    executor.run(work);
    double total = timer.seconds(), busy = work.busy_s;
    world.all_reduce(View(reinterpret_cast<std::byte*>(&total), DType::kF64, {1}), Reduce::kMax);
    world.all_reduce(View(reinterpret_cast<std::byte*>(&busy), DType::kF64, {1}), Reduce::kSum);
    if (total < best.total_s) best = {1 - busy / (total * static_cast<double>(schedule.stages)), total};
  }
  return best;
}

void print_row(const Schedule& schedule, const StageTimes& times, Communicator& world) {
  const Measured with = measure(schedule, times, world, true), without = measure(schedule, times, world, false);
  if (world.rank() > 0) return;
  const double formula = bubble_formula(schedule, times), ideal_s = simulate(schedule, times).total;
  fmt::print("{:<12} V {}  M {:>2}   bubble {:.4f}  formula {:.4f}  ratio {:.3f}   time/ideal {:.3f}   without overlap: ratio {:.3f}  time/ideal {:.3f}\n",
             schedule.name, schedule.virtual_stages, schedule.micro_batches, with.bubble, formula, with.bubble / formula, with.total_s / ideal_s,
             without.bubble / formula, without.total_s / ideal_s);
  std::fflush(stdout);
}

}  // namespace
}  // namespace optimus::bench

int main(int argc, char** argv) {
  using namespace optimus;
  const double forward_s = (argc > 1 ? std::atof(argv[1]) : 12.0) * 1e-3;
  if (!(forward_s > 0 && forward_s < 0.3)) {
    std::fputs("bench_pipeline: the milliseconds of a forward must be a number above 0 and below 300\n", stderr);
    return 2;
  }
  MpiEnvironment mpi;
  {
    const auto world = mpi.world();
    if (world->rank() == 0)
      fmt::print("{} stages, forward {:.1f} ms, input part {:.1f} ms, weight part {:.1f} ms, shortest of {} runs\n", world->size(), forward_s * 1e3,
                 forward_s * 1e3, forward_s * 1e3, bench::kRuns);
    for (const pipeline::ScheduleRequest& request : {pipeline::ScheduleRequest{"gpipe", world->size(), 1, 4},
                                                     {"gpipe", world->size(), 1, 8},
                                                     {"1f1b", world->size(), 1, 4},
                                                     {"1f1b", world->size(), 1, 8},
                                                     {"interleaved", world->size(), 2, 8},
                                                     {"interleaved", world->size(), 4, 8},
                                                     {"zero_bubble", world->size(), 1, 4},
                                                     {"zero_bubble", world->size(), 1, 8}}) {
      // A chunk of V is a V-th of a stage.
      const double part = forward_s / static_cast<double>(request.virtual_stages);
      bench::print_row(pipeline::build_schedule(request), {part, part, part, 0}, *world);
    }
  }
  mpi.close();
}
