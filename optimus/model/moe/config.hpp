#pragma once
// `[moe]`: how the expert layers are trained and computed.

#include <string>

#include "optimus/config/field.hpp"

namespace optimus {

struct MoeConfig {
  double aux_loss_coefficient = 0.01;
  std::string aux_loss_layers = "concatenated";
  std::string aux_loss_scope = "micro_batch";
  double z_loss_coefficient = 0.0;
  std::string implementation = "fast";
  std::string dispatcher = "all_gather";
  bool force_uniform_routing = false;
};

template <class Visitor> void describe(Visitor& v, MoeConfig& c) {
  v.field("aux_loss_coefficient", c.aux_loss_coefficient, "Weight of the load-balancing loss.", at_least(0.0));
  v.choice("aux_loss_layers", c.aux_loss_layers, {"concatenated", "per_layer"}, "Balance the rows of all layers together, or each layer and take the mean.");
  v.choice("aux_loss_scope", c.aux_loss_scope, {"micro_batch", "sequence", "global_batch"}, "Rows whose counts are balanced together.");
  v.field("z_loss_coefficient", c.z_loss_coefficient, "Weight of the router z-loss, the mean squared log-sum-exp of its logits.", at_least(0.0));
  v.choice("implementation", c.implementation, {"fast", "reference"}, "Five-stage grouped computation, or a loop over experts.");
  v.choice("dispatcher", c.dispatcher, {"all_gather", "all_to_all"}, "How rows reach the ranks of their experts when ep > 1.");
  v.field("force_uniform_routing", c.force_uniform_routing, "Ignore the router's choice and spread rows evenly: for measurements.");
}

}  // namespace optimus
