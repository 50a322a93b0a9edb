#include "optimus/train/dry_run.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "optimus/base/counted.hpp"
#include "optimus/comm/mpi/environment.hpp"
#include "optimus/optim/sharded_optimizer.hpp"
#include "optimus/train/batch.hpp"
#include "optimus/train/run_checkpoints.hpp"
#include "optimus/train/stage_model.hpp"

namespace optimus {
namespace {

/// What a process takes before any tensor, measured: code, libraries, thread stacks, the kernels' scratch.
constexpr Index kProgramBytes = Index{16} << 20;

/// Token ids, the copy of the state that a background save needs, and what collectives stage.
Index buffer_bytes(const RunConfig& config, const StagePlan& stage, const ShardedOptimizer::Bytes& state, Index world) {
  const Index rows = stage.schedule.micro_batches * config.batch.micro_batch, staging = world > 1 ? 2 * MpiTuning{}.staging_bytes : 0;
  return Batch::bytes(rows, config.data.sequence_length) + RunCheckpoints::buffer_bytes(config, state) + stage.buffer_bytes(config.parallel.overlap) + staging;
}

std::string words(Index bytes) {
  const auto b = static_cast<double>(bytes);
  if (bytes >= Index{1} << 30) return fmt::format("{:.2f} GiB", b / 0x1p30);
  return fmt::format("{:.2f} MiB", b / 0x1p20);
}

}  // namespace

DryRun plan_run(const RunConfig& config, Index world) {
  const Mesh mesh(config.parallel, world);
  const ParameterCounts counts = count_parameters(config.shape);
  DryRun run{
      .world = world, .dp = mesh.dp(), .pp = mesh.pp(), .ep = mesh.ep(), .tp = mesh.tp(), .parameters = counts.total, .active_parameters = counts.active};
  const Index rows = config.batch.global_batch / mesh.data_ranks();
  run.micro_batches = rows / config.batch.micro_batch;
  run.tokens_per_step = checked_mul(config.batch.global_batch, config.data.sequence_length);
  run.flops_per_token = train_flops_per_token(config.shape, config.data.sequence_length);
  const ShardedOptimizer::Options options{.optimizer = config.optimizer, .precision = config.precision, .parallel = config.parallel};
  for (Index stage = 0; stage < mesh.pp(); ++stage) {
    const Index rank = mesh.rank_of({.pp = stage});  // of the stage's ranks none needs more: uneven parts are longer on the first
    const StagePlan plan(config, mesh, rank);
    const auto state = ShardedOptimizer::plan_bytes(parameter_specs(config.shape, plan.chunks), options, mesh, rank);
    const DryRun::Bytes bytes{.weights = state.weights,
                              .gradients = state.gradients,
                              .master = state.master,
                              .moments = state.moments,
                              .activations = plan.activations().bytes,
                              .buffers = buffer_bytes(config, plan, state, world),
                              .program = kProgramBytes};
    if (bytes.sum() > run.bytes_per_rank.sum()) run.bytes_per_rank = bytes;
  }
  return run;
}

std::string dry_run_text(const DryRun& r, const RunConfig& config) {
  const DryRun::Bytes& b = r.bytes_per_rank;
  std::string text = fmt::format(
      "parameters       {}\nactive           {}\nflops per token  {:.6g}\ntokens per step  {}\nlayout           {} = dp {} x pp {} x ep {} x tp {}, {} a "
      "rank\n",
      r.parameters, r.active_parameters, r.flops_per_token, r.tokens_per_step, counted(r.world, "rank"), r.dp, r.pp, r.ep, r.tp,
      counted(r.micro_batches, "micro-batch"));
  text += fmt::format("memory per rank  {}\n", words(b.sum()));
  for (const auto& [name, bytes] :
       {std::pair{"weights", b.weights}, std::pair{"gradients", b.gradients}, std::pair{"master", b.master}, std::pair{"moments", b.moments},
        std::pair{"activations", b.activations}, std::pair{"buffers", b.buffers}, std::pair{"program", b.program}}) {
    text += fmt::format("  {:<14} {}\n", name, words(bytes));
  }
  return text + "\n# resolved configuration\n" + dump_run_config(config);
}

std::string dry_run_json(const DryRun& r) {
  const DryRun::Bytes& b = r.bytes_per_rank;
  const nlohmann::ordered_json json = {
      {"parameters", r.parameters},
      {"active_parameters", r.active_parameters},
      {"bytes_per_rank",
       {{"weights", b.weights},
        {"gradients", b.gradients},
        {"master", b.master},
        {"moments", b.moments},
        {"activations", b.activations},
        {"buffers", b.buffers},
        {"program", b.program},
        {"sum", b.sum()}}},
      {"flops_per_token", r.flops_per_token},
      {"tokens_per_step", r.tokens_per_step},
      {"layout", {{"world", r.world}, {"dp", r.dp}, {"pp", r.pp}, {"ep", r.ep}, {"tp", r.tp}, {"micro_batches", r.micro_batches}}}};
  return json.dump() + "\n";
}

}  // namespace optimus
