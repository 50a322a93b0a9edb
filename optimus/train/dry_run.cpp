#include "optimus/train/dry_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "optimus/comm/mpi/environment.hpp"
#include "optimus/comm/stages.hpp"
#include "optimus/optim/sharded_optimizer.hpp"
#include "optimus/train/batch.hpp"
#include "optimus/train/run_checkpoints.hpp"

namespace optimus {
namespace {

/// What a process takes before any tensor, measured: code, libraries, thread stacks, the kernels' scratch.
constexpr Index kProgramBytes = Index{16} << 20;

/// One pipeline stage: its parameters, and its layers.
struct Stage {
  std::vector<ParamSpec> specs;
  Index layers = 0;
};

Stage stage_of(const RunConfig& config, Index stage) {
  const Index layers = config.shape.num_hidden_layers, pp = config.parallel.pp, chunks = pp * config.parallel.virtual_stages;
  const std::vector<Index> begins = cut_layers(layers, chunks, config.parallel.layers_per_stage);
  Stage result;
  for (const ParamSpec& spec : parameter_specs(config.shape)) {
    // The chunk that holds this layer; the embedding goes with the first, the final norm and the head with the last.
    const auto after = std::upper_bound(begins.begin() + 1, begins.end() - 1, spec.layer);
    const Index chunk = after - begins.begin() - 1;
    const bool is_tied_head = spec.layer < 0 && config.shape.tie_word_embeddings && stage == pp - 1;
    if (chunk % pp == stage || is_tied_head) result.specs.push_back(spec);
  }
  for (Index chunk = stage; chunk < chunks; chunk += pp) result.layers += begins[static_cast<std::size_t>(chunk) + 1] - begins[static_cast<std::size_t>(chunk)];
  return result;
}

/// Micro-batches whose activations stage `stage` keeps at once.
double kept_micro_batches(const ParallelConfig& p, Index stage, Index micro_batches) {
  if (p.pp == 1) return 1;
  if (p.pipeline_schedule == "gpipe") return static_cast<double>(micro_batches);
  if (p.pipeline_schedule != "interleaved") return static_cast<double>(std::min(micro_batches, p.pp - stage));
  const Index chunks = std::min(micro_batches * p.virtual_stages, (p.virtual_stages - 1) * p.pp + 2 * (p.pp - stage) - 1);
  return static_cast<double>(chunks) / static_cast<double>(p.virtual_stages);
}

Index activation_bytes(const RunConfig& config, const Stage& stage, double kept) {
  TransformerOptions options = transformer_options(config);
  options.model.num_hidden_layers = std::max<Index>(stage.layers, 1);
  const auto bytes = static_cast<double>(plan_activations(options).bytes);
  return static_cast<Index>(bytes * kept / static_cast<double>(config.parallel.tp));
}

/// Token ids, the copy of the state that a background save needs, and what collectives stage.
Index buffer_bytes(const RunConfig& config, const ShardedOptimizer::Bytes& state, Index world, Index rows) {
  const Index gathered_rows =
      config.parallel.ep > 1 ? checked_mul(config.parallel.ep * config.batch.micro_batch * config.data.sequence_length * config.shape.hidden_size, 2) : 0;
  const Index staging = world > 1 ? 2 * MpiTuning{}.staging_bytes : 0;
  return Batch::bytes(rows, config.data.sequence_length) + RunCheckpoints::buffer_bytes(config, state) + gathered_rows + staging;
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
  run.is_estimate = world != mesh.dp();
  const ShardedOptimizer::Options options{.optimizer = config.optimizer, .precision = config.precision, .parallel = config.parallel};
  for (Index stage = 0; stage < mesh.pp(); ++stage) {
    const Stage part = stage_of(config, stage);
    const auto state = ShardedOptimizer::plan_bytes(part.specs, options, mesh, mesh.rank_of({.pp = stage}));
    const DryRun::Bytes bytes{.weights = state.weights,
                              .gradients = state.gradients,
                              .master = state.master,
                              .moments = state.moments,
                              .activations = activation_bytes(config, part, kept_micro_batches(config.parallel, stage, run.micro_batches)),
                              .buffers = buffer_bytes(config, state, world, rows),
                              .program = kProgramBytes};
    if (bytes.sum() > run.bytes_per_rank.sum()) run.bytes_per_rank = bytes;
  }
  return run;
}

std::string dry_run_text(const DryRun& r, const RunConfig& config) {
  const DryRun::Bytes& b = r.bytes_per_rank;
  std::string text = fmt::format(
      "parameters       {}\nactive           {}\nflops per token  {:.6g}\ntokens per step  {}\nlayout           {} ranks = dp {} x pp {} x ep {} x tp {}, {} "
      "micro-batches a rank\n",
      r.parameters, r.active_parameters, r.flops_per_token, r.tokens_per_step, r.world, r.dp, r.pp, r.ep, r.tp, r.micro_batches);
  text += fmt::format("memory per rank  {}{}\n", words(b.sum()), r.is_estimate ? " (activations estimated)" : "");
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
      {"layout",
       {{"world", r.world}, {"dp", r.dp}, {"pp", r.pp}, {"ep", r.ep}, {"tp", r.tp}, {"micro_batches", r.micro_batches}, {"is_estimate", r.is_estimate}}}};
  return json.dump() + "\n";
}

}  // namespace optimus
