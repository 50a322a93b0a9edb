#pragma once
// How a component declares its configuration: one plain struct, one describe() that names each field once.
//
//   struct RouterConfig { Index top_k = 8; std::string order = "fast"; };
//   template <class Visitor> void describe(Visitor& v, RouterConfig& c) {
//     v.field("top_k", c.top_k, "Experts chosen for a token.", at_least(1));
//     v.choice("order", c.order, {"fast", "slow"}, "What it does.");
//   }
//
// Reading, defaults, overrides, unknown-key suggestions, help, generated docs, the dump in the run folder and the hash in checkpoints
// all visit describe(). A visitor has these members; a describe() calls nothing else:
//
//   v.field(name, T& value, doc [, Range])      T: bool, Index, double, std::string, std::vector of those, std::optional of those
//   v.choice(name, std::string& value, {allowed...}, doc)
//   v.table(name, Struct& value, doc)           a TOML table with its own describe()
//   v.array(name, std::vector<Struct>& value, doc)   a TOML array of tables
//
// Conditions between fields go into `void validate(const Struct&, Problems&)` beside the struct.

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "optimus/base/index.hpp"

namespace optimus {

/// Closed range of a number, or of every element of a list. Infinite ends do not limit.
struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool min_is_excluded = false;
};
[[nodiscard]] constexpr Range at_least(double min) { return {.min = min}; }
[[nodiscard]] constexpr Range above(double min) { return {.min = min, .min_is_excluded = true}; }
[[nodiscard]] constexpr Range between(double min, double max) { return {.min = min, .max = max}; }

/// What is wrong with a configuration, collected so that a user sees all of it at once.
class Problems {
 public:
  /// `key` is the full path ("model.hidden_size"); the reader adds file and line where it knows them.
  void add(std::string key, std::string message) { items_.push_back({std::move(key), std::move(message)}); }
  [[nodiscard]] bool empty() const { return items_.empty(); }
  struct Item {
    std::string key, message;
  };
  [[nodiscard]] const std::vector<Item>& items() const { return items_; }

 private:
  std::vector<Item> items_;
};

}  // namespace optimus
