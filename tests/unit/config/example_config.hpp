#pragma once
// A configuration with a field of every kind, and a condition between fields.

#include <optional>
#include <string>
#include <vector>

#include "optimus/config/config.hpp"

namespace optimus::example {

struct Source {
  std::string path;
  double weight = 1.0;
  bool operator==(const Source&) const = default;
};
template <class Visitor> void describe(Visitor& v, Source& c) {
  v.field("path", c.path, "A folder.");
  v.field("weight", c.weight, "Its share.", above(0.0));
}

struct Inner {
  Index depth = 3;
  bool operator==(const Inner&) const = default;
};
template <class Visitor> void describe(Visitor& v, Inner& c) { v.field("depth", c.depth, "How deep.", at_least(0)); }

struct Model {
  Index hidden_size = 64;
  Index num_heads = 4;
  std::optional<double> clip_qkv;
  Inner inner;
  bool operator==(const Model&) const = default;
};
template <class Visitor> void describe(Visitor& v, Model& c) {
  v.table("inner", c.inner, "A table in a table.");
  v.field("hidden_size", c.hidden_size, "Width.", at_least(1));
  v.field("num_heads", c.num_heads, "Heads.", at_least(1));
  v.field("clip_qkv", c.clip_qkv, "Limit of q, k and v | none.", above(0.0));
}
inline void validate(const Model& c, Problems& problems) {
  if (c.num_heads > 0 && c.hidden_size % c.num_heads != 0) {
    problems.add("model.hidden_size", "must be a multiple of model.num_heads; found " + std::to_string(c.hidden_size) + " and " + std::to_string(c.num_heads));
  }
}

struct Optimizer {
  double lr = 4e-4;
  std::vector<double> betas = {0.9, 0.99};
  std::string schedule = "cosine";
  bool is_fast = true;
  std::vector<Index> stages;
  std::vector<std::string> signals = {"SIGTERM"};
  std::optional<std::vector<bool>> flags;
  bool operator==(const Optimizer&) const = default;
};
template <class Visitor> void describe(Visitor& v, Optimizer& c) {
  v.field("lr", c.lr, "Learning rate.", at_least(0.0));
  v.field("betas", c.betas, "Decay rates.", between(0.0, 1.0));
  v.choice("schedule", c.schedule, {"cosine", "linear"}, "Shape of the rate.");
  v.field("is_fast", c.is_fast, "Hurry.");
  v.field("stages", c.stages, "Layers of each stage.", at_least(0));
  v.field("signals", c.signals, "Signals to save on.");
  v.field("flags", c.flags, "Anything.");
}

struct Config {
  std::string name = "default";
  Model model;
  Optimizer optimizer;
  std::vector<Source> sources;
  bool operator==(const Config&) const = default;
};
template <class Visitor> void describe(Visitor& v, Config& c) {
  v.field("name", c.name, "What it is called.");
  v.table("model", c.model, "The model.");
  v.table("optimizer", c.optimizer, "The optimizer.");
  v.array("sources", c.sources, "Several folders.");
}

/// The message of the ConfigError of reading `text`, or "" if it reads.
inline std::string error_of(std::string_view text, const std::vector<std::string>& overrides = {}) {
  try {
    (void)read_config_text<Config>(text, "run.toml", overrides);
    return "";
  } catch (const ConfigError& e) {
    return e.what();
  }
}

}  // namespace optimus::example
