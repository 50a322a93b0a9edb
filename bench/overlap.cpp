// How much of the communication a training step hides: whole steps on two ranks whose transfers take as long as on a slow network (comm/delayed), with
// parallel.overlap and without, one axis after the other.
//
//   mpirun -n 2 build/bench/bench_overlap [latency in us] [MB/s]

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "optimus/backend/cpu/cpu_backend.hpp"
#include "optimus/base/timer.hpp"
#include "optimus/comm/delayed/delayed.hpp"
#include "optimus/comm/mpi/environment.hpp"
#include "optimus/model/initialize.hpp"
#include "optimus/train/step_bench.hpp"
#include "optimus/train/train_step.hpp"

namespace optimus::bench {
namespace {

constexpr int kSteps = 6;

/// A way to use the two ranks, and the groups whose links are slow in it.
struct Case {
  const char* name;
  std::vector<std::string> settings;
  std::vector<std::string> slow_groups;
  double speed = 1;  ///< of the link: what travels between stages is little, and would not show
};

struct Measured {
  double step_s = 1e30, injected_s = 0, waited_s = 0;  ///< injected and waited: of one step on rank 0
};

Measured measure(Communicator& world, Backend& backend, const Case& c, const Link& link, bool overlap) {
  // The small model of `bench step`, twice as deep: something to hide behind, in parts that are sent one by one.
  std::vector<std::string> settings = {"model.num_hidden_layers=8", "batch.global_batch=32", "batch.micro_batch=2", "parallel.bucket_elements=524288"};
  settings.insert(settings.end(), c.settings.begin(), c.settings.end());
  settings.push_back(std::string("parallel.overlap=") + (overlap ? "true" : "false"));
  const RunConfig config = bench_config("small", world.size(), settings);
  const auto slow = make_delayed_communicator(world, [&](std::string_view group) {
    const bool is_slow = std::find(c.slow_groups.begin(), c.slow_groups.end(), group) != c.slow_groups.end();
    return is_slow ? Link{.latency_s = link.latency_s, .bytes_per_s = link.bytes_per_s * c.speed} : Link{};
  });
  const Mesh mesh(config.parallel, world.size());
  RankGroups groups(*slow, mesh, config.parallel.two_level);
  TrainStep step(config, mesh, groups, backend);
  step.optimizer().initialize([](const ParamSpec& spec, const Box& box, Index begin, View out) { initialize(spec, box, begin, 1, out); });
  const Batch batch = made_up_batch(config, mesh, world.rank());

  const auto totals = [&] {
    Measured sum;
    for (const DelayTotals& t : slow->totals()) {
      sum.injected_s += t.injected_s;
      sum.waited_s += t.waited_s;
    }
    return sum;
  };
  PhaseSeconds ignored{};
  (void)step.run(batch, {.lr = 1e-4}, {}, ignored);  // memory is touched for the first time
  const Measured before = totals();
  Measured result;
  for (int i = 0; i < kSteps; ++i) {
    world.barrier();
    const Timer timer;
    (void)step.run(batch, {.lr = 1e-4}, {}, ignored);
    result.step_s = std::min(result.step_s, timer.seconds());
  }
  const Measured after = totals();
  result.injected_s = (after.injected_s - before.injected_s) / kSteps;
  result.waited_s = (after.waited_s - before.waited_s) / kSteps;
  return result;
}

void run(Communicator& world, const Link& link) {
  const auto backend = make_cpu_backend(1);
  const std::vector<Case> cases = {{"DP 2", {}, {"dp", "dp_ep", "dp_ep_tp"}},
                                   {"EP 2, all_gather", {"parallel.ep=2", "moe.dispatcher=all_gather"}, {"ep"}},
                                   {"EP 2, all_to_all", {"parallel.ep=2", "moe.dispatcher=all_to_all"}, {"ep"}},
                                   {"PP 2, gpipe", {"parallel.pp=2", "batch.micro_batch=1", "parallel.pipeline_schedule=gpipe"}, {"pp"}, 0.1},
                                   {"PP 2, 1f1b", {"parallel.pp=2", "batch.micro_batch=1"}, {"pp"}, 0.1},
                                   {"PP 2, zero_bubble", {"parallel.pp=2", "batch.micro_batch=1", "parallel.pipeline_schedule=zero_bubble"}, {"pp"}, 0.1}};
  if (world.rank() == 0)
    fmt::print("{:<20} {:>10} {:>12} {:>12} {:>10} {:>14} {:>14}\n", "layout", "no delay", "with overlap", "without", "injected", "hidden, on", "hidden, off");
  for (const Case& c : cases) {
    const Measured none = measure(world, *backend, c, {}, true), on = measure(world, *backend, c, link, true), off = measure(world, *backend, c, link, false);
    if (world.rank() > 0) continue;
    const auto hidden = [](const Measured& m) { return m.injected_s > 0 ? 1 - m.waited_s / m.injected_s : 0; };
    fmt::print("{:<20} {:>8.1f}ms {:>10.1f}ms {:>10.1f}ms {:>8.1f}ms {:>14.2f} {:>14.2f}\n", c.name, none.step_s * 1e3, on.step_s * 1e3, off.step_s * 1e3,
               on.injected_s * 1e3, hidden(on), hidden(off));
  }
}

}  // namespace
}  // namespace optimus::bench

int main(int argc, char** argv) {
  optimus::MpiEnvironment environment;
  const double latency_us = argc > 1 ? std::atof(argv[1]) : 50, megabytes = argc > 2 ? std::atof(argv[2]) : 800;
  {
    const auto world = environment.world();
    optimus::bench::run(*world, {.latency_s = latency_us * 1e-6, .bytes_per_s = megabytes * 1e6});
  }
  environment.close();
  return 0;
}
