#pragma once
// `[optimizer]` and `[precision]`.

#include <string>
#include <vector>

#include "optimus/base/dtype.hpp"
#include "optimus/config/field.hpp"

namespace optimus {

struct OptimizerConfig {
  std::string name = "adamw";
  double lr = 4e-4, lr_min = 4e-5;
  std::vector<double> betas = {0.9, 0.99};
  double eps = 1e-8, weight_decay = 0.1, clip_norm = 1.0;
  bool clip_during_warmup = false;
  std::string schedule = "cosine";
  Index warmup_steps = 0, decay_steps = 0;
  std::string nonfinite = "stop";
};

template <class Visitor> void describe(Visitor& v, OptimizerConfig& c) {
  v.choice("name", c.name, {"adamw", "sgd"}, "AdamW, or plain SGD without momentum.");
  v.field("lr", c.lr, "Largest learning rate.", at_least(0.0));
  v.field("lr_min", c.lr_min, "Learning rate at the start of the warm-up and at the end of the decay.", at_least(0.0));
  v.field("betas", c.betas, "Decay rates of AdamW's two moments, below 1.", between(0.0, 1.0));
  v.field("eps", c.eps, "Added to the root of the second moment; with 0, weights without any gradient stay.", at_least(0.0));
  v.field("weight_decay", c.weight_decay, "Decoupled decay, on every parameter.", at_least(0.0));
  v.field("clip_norm", c.clip_norm, "Largest global gradient norm; 0: no clipping.", at_least(0.0));
  v.field("clip_during_warmup", c.clip_during_warmup, "Clip in the warm-up steps too.");
  v.choice("schedule", c.schedule, {"cosine", "linear", "constant", "wsd"}, "Learning rate after the warm-up.");
  v.field("warmup_steps", c.warmup_steps, "Steps from lr_min up to lr.", at_least(0));
  v.field("decay_steps", c.decay_steps, "Of wsd: steps of the final decay from lr to lr_min.", at_least(0));
  v.choice("nonfinite", c.nonfinite, {"stop", "skip"}, "On NaN or Inf in loss or gradients: stop the run, or drop the step and count it.");
}

/// Two betas, each below 1; decay_steps with wsd only.
void validate(const OptimizerConfig& config, Problems& problems);

struct PrecisionConfig {
  std::string weights = "bf16";
  std::string gradients = "fp32";
};

template <class Visitor> void describe(Visitor& v, PrecisionConfig& c) {
  v.choice("weights", c.weights, {"bf16", "fp32"}, "Element type of weights and activations.");
  v.choice("gradients", c.gradients, {"fp32", "bf16"}, "Element type in which gradients are accumulated and reduced.");
}

[[nodiscard]] inline DType parse_precision(const std::string& name) { return name == "bf16" ? DType::kBF16 : DType::kF32; }

}  // namespace optimus
