// What it costs to look for NaN and Inf in every step, as parts of the time of whole steps of the model of `bench step --config small`.
//
//   mpirun -n 1 build/bench/bench_checks                     # or: mpirun -n 2 build/bench/bench_checks parallel.tp=2
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "optimus/backend/cpu/cpu_backend.hpp"
#include "optimus/base/random.hpp"
#include "optimus/base/timer.hpp"
#include "optimus/comm/mpi/environment.hpp"
#include "optimus/comm/watched/watched.hpp"
#include "optimus/model/initialize.hpp"
#include "optimus/ops/update.hpp"
#include "optimus/train/train_step.hpp"

namespace optimus::bench {
namespace {

constexpr const char* kSmall = R"(
[model]
num_hidden_layers = 4
hidden_size = 256
num_attention_heads = 4
intermediate_size = 256
num_experts = 8
num_experts_per_tok = 2
vocab_size = 2048
[data]
sequence_length = 256
[batch]
global_batch = 8
micro_batch = 4
)";
constexpr int kWarmupSteps = 2, kSteps = 15;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

double slowest(Communicator& world, double seconds) {
  world.all_reduce(View(reinterpret_cast<std::byte*>(&seconds), DType::kF64, {1}), Reduce::kMax);
  return seconds;
}

void fill(Batch& batch, Index rows, Index length, Index vocab, Index rank) {
  const RandomStream stream(1, "bench", std::to_string(rank));
  std::vector<std::int32_t> ids(static_cast<std::size_t>(rows * (length + 1)));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(stream.below(static_cast<Index>(i), static_cast<std::uint64_t>(vocab)));
  batch.set(ids);
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
  const Index rows = config.batch.global_batch / mesh.data_ranks();
  Batch batch(rows, config.data.sequence_length, -1);
  fill(batch, rows, config.data.sequence_length, config.shape.vocab_size, mesh.data_index(world->rank()));
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
  return {.step = slowest(*world, median(steps)),
          .weights = slowest(*world, median(weights)),
          .gradients = slowest(*world, median(gradients)),
          .sent = slowest(*world, median(sent))};
}

void run(Communicator& world, const std::vector<std::string>& settings) {
  const auto backend = make_cpu_backend(1);
  std::vector<std::string> all = {"batch.global_batch=" + std::to_string(8 * world.size())};
  all.insert(all.end(), settings.begin(), settings.end());
  const RunConfig config = load_run_config_text(kSmall, {.ranks = world.size(), .needs_data = false}, all);
  const Seconds s = measure(config, world, *backend);
  if (world.rank() != 0) return;
  fmt::print("{} ranks, step {:.2f} ms\n", world.size(), 1e3 * s.step);
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
