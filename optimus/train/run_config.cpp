#include "optimus/train/run_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "optimus/comm/stages.hpp"
#include "optimus/config/config.hpp"
#include "optimus/pipeline/schedule.hpp"
#include "optimus/train/signals.hpp"

namespace optimus {
namespace {

void check_run(const RunConfig& c, Problems& problems) {
  if (c.run.dir.empty()) problems.add("run.dir", "is empty: the current folder would be filled with the run's files; name a folder (\".\" for this one)");
  if (c.run.resume.empty()) problems.add("run.resume", "is empty; it must be \"auto\", \"never\" or a checkpoint folder");
}

void check_steps(const RunConfig& c, const ConfigSource& source, Problems& problems) {
  if (c.run.tokens && source.is_set("run.steps")) problems.add("run.tokens", "is set beside run.steps; give one of the two");
  if (c.optimizer.schedule == "wsd" && c.optimizer.warmup_steps + c.optimizer.decay_steps > c.run.steps) {
    problems.add("optimizer.decay_steps",
                 fmt::format("warm-up of {} and decay of {} steps are more than the run's {}", c.optimizer.warmup_steps, c.optimizer.decay_steps, c.run.steps));
  }
}

void check_checkpoints(const RunConfig& c, Problems& problems) {
  if (c.checkpoint.keep_every > 0 && c.checkpoint.keep_last == 0)
    problems.add("checkpoint.keep_every",
                 "is set without checkpoint.keep_last, which keeps all model-only checkpoints; give the number of newest ones to keep");
}

void check_data(const RunConfig& c, bool needs_data, Problems& problems) {
  if (needs_data && c.data.path.empty() && c.data.sources.empty())
    problems.add("data.path", "is not set: name a folder made by `optimus prepare`, or data.sources");
  if (!c.data.path.empty() && !c.data.sources.empty()) problems.add("data.sources", "is set beside data.path; give one of the two");
  for (std::size_t i = 0; i < c.data.sources.size(); ++i) {
    if (c.data.sources[i].path.empty()) problems.add(fmt::format("data.sources[{}].path", i), "is empty: name a folder made by `optimus prepare`");
  }
  if (c.data.validation_interval > 0 && c.data.validation.empty()) problems.add("data.validation_interval", "needs data.validation, a prepared folder");
  if (c.data.sequence_length > c.shape.max_position_embeddings) {
    problems.add("data.sequence_length",
                 fmt::format("{} is longer than the model's max_position_embeddings {}", c.data.sequence_length, c.shape.max_position_embeddings));
  }
}

void check_batch(const RunConfig& c, Index ranks, Problems& problems) {
  const ParallelConfig& p = c.parallel;
  const std::size_t before = problems.items().size();
  validate_layout(p, ranks, problems);
  const bool has_layout = problems.items().size() == before;
  // Far beyond any use, and far from overflow in products with the sequence length.
  constexpr Index kMostSequences = Index{1} << 31;
  for (const auto& [name, size] : {std::pair{"global_batch", c.batch.global_batch}, std::pair{"micro_batch", c.batch.micro_batch}}) {
    if (size > kMostSequences) return problems.add(std::string("batch.") + name, fmt::format("{} is more than {}", size, kMostSequences));
  }
  if (!has_layout) {  // there are no data ranks to divide by
    if (c.batch.global_batch % c.batch.micro_batch != 0)
      problems.add("batch.global_batch", fmt::format("{} is no multiple of micro_batch {}", c.batch.global_batch, c.batch.micro_batch));
    return;
  }
  const Index data_ranks = Mesh(p, ranks).data_ranks(), piece = checked_mul(data_ranks, c.batch.micro_batch);
  if (c.batch.global_batch % piece != 0) {
    problems.add("batch.global_batch", fmt::format("{} cannot be divided over {} data ranks x micro_batch {}; make it a multiple of {}", c.batch.global_batch,
                                                   data_ranks, c.batch.micro_batch, piece));
  }
}

/// What every layer is cut into, against the ranks that share it.
void check_tensor_parallel(const RunConfig& c, Problems& problems) {
  const Index tp = c.parallel.tp, kv_heads = c.shape.num_key_value_heads;
  for (const auto& [name, size] : {std::pair{"num_attention_heads", c.shape.num_attention_heads}, std::pair{"intermediate_size", c.shape.intermediate_size}}) {
    if (size % tp != 0) problems.add("parallel.tp", fmt::format("{} {} cannot be divided over {} ranks", name, size, tp));
  }
  if (kv_heads % tp != 0 && tp % kv_heads != 0) {
    problems.add("parallel.tp", fmt::format("num_key_value_heads {} can neither be divided over {} ranks nor held by equally many of them each", kv_heads, tp));
  }
  if (c.shape.vocab_size < tp) problems.add("parallel.tp", fmt::format("vocab_size {} has nothing for some of {} ranks", c.shape.vocab_size, tp));
  if (tp > 1 && c.parallel.sequence_parallel && c.data.sequence_length % tp != 0) {
    problems.add("parallel.sequence_parallel",
                 fmt::format("sequence_length {} cannot be divided over {} ranks; make it a multiple, or set this to false", c.data.sequence_length, tp));
  }
}

/// The model's sizes against the layout's.
void check_division(const RunConfig& c, Problems& problems) {
  const ParallelConfig& p = c.parallel;
  if (c.shape.is_moe && c.shape.num_experts % p.ep != 0)
    problems.add("parallel.ep", fmt::format("num_experts {} cannot be divided over {} ranks", c.shape.num_experts, p.ep));
  if (!c.shape.is_moe && p.ep > 1) problems.add("parallel.ep", fmt::format("{} expert-parallel ranks, but the model is dense", p.ep));
  check_tensor_parallel(c, problems);
  Index chunks = 0;
  if (__builtin_mul_overflow(p.pp, p.virtual_stages, &chunks)) chunks = std::numeric_limits<Index>::max();
  if (chunks > c.shape.num_hidden_layers) {
    problems.add("parallel.pp",
                 fmt::format("{} stages x {} virtual stages for {} layers: each needs at least one", p.pp, p.virtual_stages, c.shape.num_hidden_layers));
  } else if (p.layers_per_stage.empty() || static_cast<Index>(p.layers_per_stage.size()) == chunks) {  // another number of stages has been named already
    try {
      (void)cut_layers(c.shape.num_hidden_layers, chunks, p.layers_per_stage);
    } catch (const ConfigError& error) {
      problems.add("parallel.layers_per_stage", error.what());
    }
  }
}

/// A schedule may want a certain number of micro-batches.
void check_schedule(const RunConfig& c, Index ranks, Problems& problems) {
  const ParallelConfig& p = c.parallel;
  const Index piece = Mesh(p, ranks).data_ranks() * c.batch.micro_batch;
  try {
    (void)pipeline::build_schedule(
        {.name = p.pipeline_schedule, .stages = p.pp, .virtual_stages = p.virtual_stages, .micro_batches = c.batch.global_batch / piece});
  } catch (const ConfigError& error) {
    problems.add("parallel.pipeline_schedule", error.what());
  }
}

/// Gradients are sums of products in the type of the weights: fp32 ones are never rounded on the way.
void check_precision(const RunConfig& c, Problems& problems) {
  if (c.precision.weights == "fp32" && c.precision.gradients != "fp32")
    problems.add("precision.gradients", fmt::format("{} gradients of fp32 weights are not computed; set it to fp32, or precision.weights to {}",
                                                    c.precision.gradients, c.precision.gradients));
}

void check_log(const RunConfig& c, Problems& problems) {
  if (c.log.straggler_factor > 0 && c.log.straggler_factor <= 1)
    problems.add("log.straggler_factor", fmt::format("{} would name half of all ranks; it must be above 1, or 0", c.log.straggler_factor));
}

void check_signals(const RunConfig& c, Problems& problems) {
  for (const std::string& name : c.fault_tolerance.save_on_signal) {
    if (!parse_signal(name))
      problems.add("fault_tolerance.save_on_signal", fmt::format("\"{}\" is no signal that can be caught here; allowed: {}", name, signal_names()));
  }
}

void check_faults(const RunConfig& c, Index ranks, Problems& problems) {
  const auto specs = parameter_specs(c.shape);
  for (std::size_t i = 0; i < c.faults.size(); ++i) {
    const FaultConfig& fault = c.faults[i];
    const std::string key = fmt::format("faults[{}].", i);
    if (fault.rank >= ranks) problems.add(key + "rank", fmt::format("{} does not exist: there are {} ranks", fault.rank, ranks));
    const bool is_known = std::any_of(specs.begin(), specs.end(), [&](const ParamSpec& spec) { return spec.name == fault.tensor; });
    if (fault.where == "activation" && c.parallel.tp * c.parallel.ep * c.parallel.pp == 1 && (fault.kind == "nan" || fault.kind == "inf"))
      problems.add(key + "where", "\"activation\" spoils what ranks send each other inside the model, and there is none: tp, ep and pp are 1");
    if (!fault.tensor.empty() && !is_known)
      problems.add(key + "tensor", fmt::format("the model has no parameter \"{}\" (its first: \"{}\")", fault.tensor, specs.front().name));
  }
}

RunConfig load(ConfigSource source, const RunWorld& world) {
  return read_config<RunConfig>(std::move(source), [&](RunConfig& c, const ConfigSource& s, Problems& problems) {
    c.shape = resolve_model(c.model, problems);
    const bool is_model_whole = problems.empty();
    Index tokens_per_step = 0;
    if (c.run.tokens && !__builtin_mul_overflow(c.batch.global_batch, c.data.sequence_length, &tokens_per_step))
      c.run.steps = ceil_div(*c.run.tokens, tokens_per_step);
    check_run(c, problems);
    check_steps(c, s, problems);
    check_data(c, world.needs_data, problems);
    check_checkpoints(c, problems);
    check_precision(c, problems);
    check_signals(c, problems);
    check_log(c, problems);
    check_batch(c, world.ranks, problems);
    if (!is_model_whole) return;
    check_division(c, problems);
    if (problems.empty()) check_schedule(c, world.ranks, problems);
    check_faults(c, world.ranks, problems);
  });
}

}  // namespace

RunConfig load_run_config(const std::filesystem::path& path, const std::vector<std::string>& overrides, const RunWorld& world) {
  return load(ConfigSource::from_file(path, overrides), world);
}

RunConfig load_run_config_text(std::string_view text, const RunWorld& world, const std::vector<std::string>& overrides) {
  return load(ConfigSource(text, "text", overrides), world);
}

std::string dump_run_config(const RunConfig& config) {
  RunConfig resolved = config;
  resolved.model = spell_out(config.shape);
  resolved.run.tokens.reset();  // they have become steps
  return dump_config(resolved);
}

TransformerOptions transformer_options(const RunConfig& config) {
  return {.model = config.shape,
          .moe = config.moe,
          .recompute = config.recompute,
          .weights = parse_precision(config.precision.weights),
          .gradients = parse_precision(config.precision.gradients),
          .micro_batch = config.batch.micro_batch,
          .sequence_length = config.data.sequence_length,
          .overlap = config.parallel.overlap};
}

}  // namespace optimus
