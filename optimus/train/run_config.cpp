#include "optimus/train/run_config.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "optimus/config/config.hpp"
#include "optimus/train/fault_checks.hpp"
#include "optimus/train/layout_checks.hpp"
#include "optimus/train/signals.hpp"
#include "optimus/train/sound_fields.hpp"

namespace optimus {
namespace {

void check_run(const RunConfig& c, Problems& problems) {
  if (c.run.dir.empty()) problems.add("run.dir", "is empty: the current folder would be filled with the run's files; name a folder (\".\" for this one)");
  if (c.run.resume.empty()) problems.add("run.resume", "is empty; it must be \"auto\", \"never\" or a checkpoint folder");
}

void check_steps(const RunConfig& c, const ConfigSource& source, Problems& problems) {
  if (c.run.tokens && source.is_set("run.steps")) problems.add("run.tokens", "is set beside run.steps; give one of the two");
  if (c.optimizer.schedule == "wsd" && (c.optimizer.warmup_steps > c.run.steps || c.optimizer.decay_steps > c.run.steps - c.optimizer.warmup_steps)) {
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
}

void check_sequence_length(const RunConfig& c, const SoundFields& sound, Problems& problems) {
  const Index length = c.data.sequence_length, most = c.shape.max_position_embeddings;
  if (length > most && sound.has_model() && sound.good({"data.sequence_length", "model.max_position_embeddings"}))
    problems.add("data.sequence_length", fmt::format("{} is longer than the model's max_position_embeddings {}", length, most));
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
    check_sequence_length(c, SoundFields(s, problems), problems);
    const bool has_layout = check_layout(c, s, world.ranks, problems);
    check_faults(c, {.ranks = world.ranks, .has_model = is_model_whole, .has_layout = has_layout}, problems);
  });
}

}  // namespace

std::string describe_model_table() {
  const ModelConfig c;
  return fmt::format(
      "The network: a preset or a Hugging Face config.json, then single fields under their Hugging Face names. What none of them gives is mula-7b-a1b's: "
      "vocab_size {}, hidden_size {}, num_hidden_layers {}, num_attention_heads {}, intermediate_size {}, num_experts {}, num_experts_per_tok {}.",
      c.vocab_size, c.hidden_size, c.num_hidden_layers, c.num_attention_heads, c.intermediate_size, c.num_experts, c.num_experts_per_tok);
}

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
