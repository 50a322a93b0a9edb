#include "optimus/train/step_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "optimus/backend/cpu/cpu_backend.hpp"
#include "optimus/base/median.hpp"
#include "optimus/base/random.hpp"
#include "optimus/base/timer.hpp"
#include "optimus/model/initialize.hpp"
#include "optimus/ops/misc.hpp"
#include "optimus/tensor/arena.hpp"
#include "optimus/train/train_step.hpp"

namespace optimus {
namespace {

constexpr std::string_view kSmall = R"(
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
micro_batch = 8
)";

constexpr std::string_view kMula7bL2 = R"(
[model]
preset = "mula-7b-a1b"
num_hidden_layers = 2
[data]
sequence_length = 2048
[batch]
global_batch = 1
micro_batch = 1
[precision]
gradients = "bf16"
)";

constexpr int kWarmupSteps = 2, kMinSteps = 5;
constexpr double kMinSeconds = 3;

/// The rate at which memory is copied, read and written bytes counted.
double copy_rate(Backend& backend) {
  constexpr Index kElements = Index{1} << 24;  // 64 MiB: far more than caches
  Buffer from(kElements * 4), to(kElements * 4);
  const View source(from.data(), DType::kF32, {kElements}), target(to.data(), DType::kF32, {kElements});
  ops::fill_zero(backend, source);
  double best = 0;
  for (int round = 0; round < 5; ++round) {
    const Timer timer;
    ops::copy(backend, source, target);
    best = std::max(best, static_cast<double>(source.bytes() + target.bytes()) / timer.seconds());
  }
  return best;
}

double sum_of_all(Communicator& world, double value) {
  world.all_reduce(View(reinterpret_cast<std::byte*>(&value), DType::kF64, {1}), Reduce::kSum);
  return value;
}

/// Bytes that the update touches: gradient read, master and moments read and written, weight written.
double update_bytes(const ShardedOptimizer::Bytes& b) {
  const Index weights = b.master > 0 ? b.weights : 2 * b.weights;  // fp32 weights are their own master
  return static_cast<double>(b.gradients + 2 * b.master + 2 * b.moments + weights);
}

}  // namespace

RunConfig bench_config(const std::string& name, Index ranks, std::vector<std::string> overrides) {
  const RunWorld world{.ranks = ranks, .needs_data = false};
  if (name != "small" && name != "mula-7b-l2") return load_run_config(name, overrides, world);
  overrides.insert(overrides.begin(), "batch.global_batch=" + std::to_string((name == "small" ? 8 : 1) * ranks));
  return load_run_config_text(name == "small" ? kSmall : kMula7bL2, world, overrides);
}

Batch made_up_batch(const RunConfig& config, const Mesh& mesh, Index rank) {
  const Index rows = config.batch.global_batch / mesh.data_ranks();
  const RandomStream stream(static_cast<std::uint64_t>(config.run.seed), "bench", std::to_string(mesh.data_index(rank)));
  std::vector<std::int32_t> ids(static_cast<std::size_t>(rows * (config.data.sequence_length + 1)));
  for (std::size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<std::int32_t>(stream.below(static_cast<Index>(i), static_cast<std::uint64_t>(config.shape.vocab_size)));
  Batch batch(rows, config.data.sequence_length, -1);
  batch.set(ids);
  return batch;
}

StepBench bench_step(const RunConfig& config, Communicator& world, Backend& backend, int threads) {
  const Mesh mesh(config.parallel, world.size());
  RankGroups groups(world, mesh, config.parallel.two_level);
  TrainStep step(config, mesh, groups, backend);
  step.optimizer().initialize([&](const ParamSpec& spec, const Box& box, Index flat_begin, View out) { initialize(spec, box, flat_begin, 1, out); });
  const Batch batch = made_up_batch(config, mesh, world.rank());
  const DType dtype = parse_precision(config.precision.weights);
  double peak = measure_peak(dtype, threads);

  const auto run_once = [&](PhaseSeconds& seconds) {
    const Timer timer;
    (void)step.run(batch, {.lr = 1e-4}, {}, seconds);
    return timer.seconds();
  };
  PhaseSeconds ignored{};
  for (int i = 0; i < kWarmupSteps; ++i) (void)run_once(ignored);
  std::vector<double> totals;
  std::array<std::vector<double>, kPhaseNames.size()> by_phase;
  const Timer all;
  // Rank 0's clock decides for all.
  for (double is_going = 1; is_going > 0;) {
    PhaseSeconds seconds{};
    totals.push_back(run_once(seconds));
    for (std::size_t p = 0; p < seconds.size(); ++p) by_phase[p].push_back(seconds[p]);
    is_going = sum_of_all(world, world.rank() == 0 && (totals.size() < kMinSteps || all.seconds() < kMinSeconds) ? 1.0 : 0.0);
  }
  peak = sum_of_all(world, std::max(peak, measure_peak(dtype, threads)));

  StepBench bench{.tokens = config.batch.global_batch * config.data.sequence_length, .step_s = lower_median(totals), .peak_flops_per_s = peak};
  bench.tokens_per_s = static_cast<double>(bench.tokens) / bench.step_s;
  const double flops = train_flops_per_token(config.shape, config.data.sequence_length) * static_cast<double>(bench.tokens);
  bench.flops_per_s = flops / bench.step_s;
  bench.fraction_of_peak = bench.flops_per_s / peak;
  const auto seconds_of = [&](Phase phase) { return lower_median(by_phase[static_cast<std::size_t>(phase)]); };
  const double copy = sum_of_all(world, copy_rate(backend)), compute_s = seconds_of(Phase::kForwardBackward);
  bench.phases.push_back({.name = "forward_backward", .seconds = compute_s, .rate = flops / compute_s, .fraction = flops / compute_s / peak});
  const ShardedOptimizer::Bytes bytes = step.optimizer().bytes();
  // Each gradient is looked at for NaN, and its square added up.
  for (const auto& [phase, touched] : {std::pair{Phase::kReduce, 2.0 * static_cast<double>(bytes.gradients)}, std::pair{Phase::kUpdate, update_bytes(bytes)}}) {
    const double seconds = seconds_of(phase), rate = sum_of_all(world, touched) / seconds;
    bench.phases.push_back(
        {.name = std::string(kPhaseNames[static_cast<std::size_t>(phase)]), .seconds = seconds, .rate = rate, .is_compute = false, .fraction = rate / copy});
  }
  return bench;
}

std::string bench_text(const StepBench& b) {
  std::string text = fmt::format("{} tokens in {:.4f} s: {:.0f} tokens/s, {:.1f} GFLOP/s = {:.3f} of the peak of {:.1f}\n", b.tokens, b.step_s, b.tokens_per_s,
                                 b.flops_per_s * 1e-9, b.fraction_of_peak, b.peak_flops_per_s * 1e-9);
  for (const BenchPhase& phase : b.phases) {
    text += fmt::format("  {:<18} {:>9.4f} s  {:>8.1f} {:<8} {:.3f} of {}\n", phase.name, phase.seconds, phase.rate * 1e-9,
                        phase.is_compute ? "GFLOP/s" : "GB/s", phase.fraction, phase.is_compute ? "the arithmetic peak" : "the rate of a copy");
  }
  return text;
}

std::string bench_json(const StepBench& b) {
  nlohmann::ordered_json json = {{"tokens", b.tokens},
                                 {"step_s", b.step_s},
                                 {"tokens_per_s", b.tokens_per_s},
                                 {"gflops", b.flops_per_s * 1e-9},
                                 {"peak_gflops", b.peak_flops_per_s * 1e-9},
                                 {"fraction_of_peak", b.fraction_of_peak}};
  for (const BenchPhase& phase : b.phases) {
    json["phases"][phase.name] = {{"seconds", phase.seconds}, {phase.is_compute ? "gflops" : "gbytes_per_s", phase.rate * 1e-9}, {"fraction", phase.fraction}};
  }
  return json.dump() + "\n";
}

}  // namespace optimus
