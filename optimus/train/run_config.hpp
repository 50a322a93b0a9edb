#pragma once
// The configuration of a run: the components' own structs put together, and the tables that belong to the loop itself.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "optimus/checkpoint/checkpoint.hpp"
#include "optimus/comm/mesh.hpp"
#include "optimus/data/sampler.hpp"
#include "optimus/model/config.hpp"
#include "optimus/model/moe/config.hpp"
#include "optimus/model/transformer.hpp"
#include "optimus/optim/config.hpp"
#include "optimus/train/fault_config.hpp"

namespace optimus {

/// `[run]`.
struct RunSection {
  std::string dir = "runs/default";
  Index seed = 1, steps = 1000;
  std::optional<Index> tokens;
  Index stop_after_step = 0;
  std::string resume = "auto", init_from;
};
template <class Visitor> void describe(Visitor& v, RunSection& c) {
  v.field("dir", c.dir, "Run folder.");
  v.field("seed", c.seed, "Of initial weights and of the order of samples.", at_least(0));
  v.field("steps", c.steps, "Optimizer steps.", at_least(1));
  v.field("tokens", c.tokens, "Instead of steps: tokens to train on, rounded up to whole steps.", at_least(1));
  v.field("stop_after_step", c.stop_after_step, "Save and end after this step, schedules unchanged; 0: never.", at_least(0));
  v.field("resume", c.resume, "auto: from the newest complete checkpoint of the run folder, fresh if there is none at all; never; or a checkpoint folder.");
  v.field("init_from", c.init_from, "Starting weights: a Hugging Face folder or a model-only checkpoint. Optimizer, step and data start fresh.");
}

/// `[batch]`.
struct BatchConfig {
  Index global_batch = 32, micro_batch = 1;
};
template <class Visitor> void describe(Visitor& v, BatchConfig& c) {
  v.field("global_batch", c.global_batch, "Sequences in an optimizer step, over all ranks.", at_least(1));
  v.field("micro_batch", c.micro_batch, "Sequences in one forward and backward pass.", at_least(1));
}

/// `[log]`.
struct LogConfig {
  Index interval = 1;
  bool tokens_per_expert = false, tensorboard = true;
  double straggler_factor = 1.5;
};
template <class Visitor> void describe(Visitor& v, LogConfig& c) {
  v.field("interval", c.interval, "Steps between lines on the terminal, in log.txt and in TensorBoard; metrics.jsonl has every step.", at_least(1));
  v.field("tokens_per_expert", c.tokens_per_expert, "Put the rows of each layer and expert into metrics.jsonl.");
  v.field("tensorboard", c.tensorboard, "Write events.out.tfevents.*.");
  v.field("straggler_factor", c.straggler_factor,
          "Name ranks that work longer than this times the median of their pipeline stage, at each line on the terminal; 0: do not compare.", at_least(0.0));
}

/// `[debug]`.
struct DebugConfig {
  bool check_replicas = false;
  std::vector<Index> dump_gradients_steps, dump_logits_steps;
};
template <class Visitor> void describe(Visitor& v, DebugConfig& c) {
  v.field("check_replicas", c.check_replicas, "After each step compare hashes of all copies of each parameter; a difference ends the run.");
  v.field("dump_gradients_steps", c.dump_gradients_steps, "Steps whose gradients, reduced and not clipped, go to debug/gradients-step-N.safetensors.",
          at_least(1));
  v.field("dump_logits_steps", c.dump_logits_steps, "Steps whose logits and tokens go to debug/logits-step-N.safetensors.", at_least(1));
}

/// Everything a run is made from.
struct RunConfig {
  RunSection run;
  ModelOverrides model;
  MoeConfig moe;
  DataConfig data;
  BatchConfig batch;
  OptimizerConfig optimizer;
  PrecisionConfig precision;
  ParallelConfig parallel;
  RecomputeConfig recompute;
  CheckpointConfig checkpoint;
  FaultToleranceConfig fault_tolerance;
  LogConfig log;
  DebugConfig debug;
  std::vector<FaultConfig> faults;

  ModelConfig shape;  ///< not read: what `model` comes to
};
/// What `[model]` means, with the defaults of ModelConfig.
[[nodiscard]] std::string describe_model_table();
template <class Visitor> void describe(Visitor& v, RunConfig& c) {
  v.table("run", c.run, "The run as a whole.");
  v.table("model", c.model, describe_model_table());
  v.table("moe", c.moe, "The expert layers.");
  v.table("data", c.data, "What is read.");
  v.table("batch", c.batch, "How much of it in a step.");
  v.table("optimizer", c.optimizer, "What changes the weights.");
  v.table("precision", c.precision, "Element types.");
  v.table("parallel", c.parallel, "How ranks share the work. The layout changes results by rounding at most.");
  v.table("recompute", c.recompute, "Memory for time.");
  v.table("checkpoint", c.checkpoint, "When the state is saved.");
  v.table("fault_tolerance", c.fault_tolerance, "What ends a run before its time.");
  v.table("log", c.log, "What is written down.");
  v.table("debug", c.debug, "Checks and dumps.");
  v.array("faults", c.faults, "Failures made on purpose, for drills and tests.");
}

/// What a configuration must fit.
struct RunWorld {
  Index ranks = 1;
  bool needs_data = true;  ///< false for plans and benchmarks
};

/// Reads, resolves the model, and checks everything against everything.
/// Errors: ConfigError with every problem, each with file and line.
[[nodiscard]] RunConfig load_run_config(const std::filesystem::path& path, const std::vector<std::string>& overrides, const RunWorld& world);
/// The same from a text.
[[nodiscard]] RunConfig load_run_config_text(std::string_view text, const RunWorld& world, const std::vector<std::string>& overrides = {});

/// The configuration with everything spelled out: reads back as the same run.
[[nodiscard]] std::string dump_run_config(const RunConfig& config);

[[nodiscard]] TransformerOptions transformer_options(const RunConfig& config);

}  // namespace optimus
