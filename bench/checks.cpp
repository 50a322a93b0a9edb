// What it costs to look for NaN and Inf in every step, as parts of the time of whole steps of the model of `bench step --config small`.
//
//   mpirun -n 1 build/bench/bench_checks                     # or: mpirun -n 2 build/bench/bench_checks parallel.tp=2
#include <fmt/core.h>

#include <string>
#include <vector>

#include "optimus/backend/cpu/cpu_backend.hpp"
#include "optimus/base/counted.hpp"
#include "optimus/base/median.hpp"
#include "optimus/base/timer.hpp"
#include "optimus/comm/mpi/environment.hpp"
#include "optimus/comm/watched/watched.hpp"
#include "optimus/model/initialize.hpp"
#include "optimus/ops/update.hpp"
#include "optimus/train/step_bench.hpp"
#include "optimus/train/train_step.hpp"

namespace optimus::bench {
namespace {

constexpr int kWarmupSteps = 2, kSteps = 15;

double slowest(Communicator& world, double seconds) {
  world.all_reduce(View(reinterpret_cast<std::byte*>(&seconds), DType::kF64, {1}), Reduce::kMax);
  return seconds;
}

/// Seconds of the median step, and of the checks in it.
struct Seconds {
  double step = 0, weights = 0, gradients = 0, sent = 0;
};

Seconds measure(const RunConfig& config, Communicator& plain, Backend& backend) {
  TransferWatch transfers;
  const auto world = make_watched_communicator(plain, transfers);
  const Mesh mesh(config.parallel, world->size());
  RankGroups groups(*world, mesh, config.parallel.two_level);
  TrainStep step(config, mesh, groups, backend, &transfers);
  step.optimizer().initialize([&](const ParamSpec& spec, const Box& box, Index flat_begin, View out) { initialize(spec, box, flat_begin, 1, out); });
  const Batch batch = made_up_batch(config, mesh, world->rank());
  std::vector<double> steps, weights, gradients, sent;
  for (int i = 0; i < kWarmupSteps + kSteps; ++i) {
    PhaseSeconds ignored{};
    const double looked_before = transfers.looked_s();
    Timer timer;
    (void)step.run(batch, {.lr = 1e-4}, {}, ignored);
    const double step_s = timer.seconds();
    if (i < kWarmupSteps) continue;
    steps.push_back(step_s);
    sent.push_back(transfers.looked_s() - looked_before);
    // The passes of the step once more.
    step.optimizer().wait_weights();
    timer.restart();
    if (step.optimizer().find_nonfinite_weight()) fmt::print("a weight is not finite\n");
    weights.push_back(timer.seconds());
    timer.restart();
    double squares = 0;
    for (const View& gradient : step.optimizer().gradients()) squares += ops::sum_squares(backend, gradient);
    gradients.push_back(timer.seconds() + 0 * squares);
  }
  return {.step = slowest(*world, lower_median(steps)),
          .weights = slowest(*world, lower_median(weights)),
          .gradients = slowest(*world, lower_median(gradients)),
          .sent = slowest(*world, lower_median(sent))};
}

void run(Communicator& world, const std::vector<std::string>& settings) {
  const auto backend = make_cpu_backend(1);
  std::vector<std::string> all = {"batch.micro_batch=4"};
  all.insert(all.end(), settings.begin(), settings.end());
  const RunConfig config = bench_config("small", world.size(), all);
  const Seconds s = measure(config, world, *backend);
  if (world.rank() != 0) return;
  fmt::print("{}, step {:.2f} ms\n", counted(world.size(), "rank"), 1e3 * s.step);
  for (const auto& [name, seconds] : {std::pair{"weights", s.weights}, std::pair{"local gradients", s.gradients}, std::pair{"what is sent", s.sent}})
    fmt::print("  {:<16} {:.3f} ms = {:.2f} % of the step\n", name, 1e3 * seconds, 100 * seconds / s.step);
}

}  // namespace
}  // namespace optimus::bench

int main(int argc, char** argv) {
  optimus::MpiEnvironment environment;
  {
    const auto world = environment.world();
    optimus::bench::run(*world, std::vector<std::string>(argv + 1, argv + argc));
  }
  environment.close();
  return 0;
}
