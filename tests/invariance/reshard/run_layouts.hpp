#pragma once
// The layouts between which runs are moved.

#include <memory>
#include <string>
#include <vector>

#include "optimus/comm/communicator.hpp"
#include "tests/support/mpi/mpi_world.hpp"

namespace optimus::test {

/// Seconds that ranks wait for others: on a busy machine those that a layout leaves out wait long for those that work.
inline constexpr double kPatience = 240;

/// What all of these runs compute on, as a part of a configuration.
inline constexpr const char* kRunModel = R"(
[model]
vocab_size = 61
hidden_size = 32
num_hidden_layers = 4
num_attention_heads = 4
num_key_value_heads = 1
intermediate_size = 16
num_experts = 4
num_experts_per_tok = 2
tie_word_embeddings = true
[data]
sequence_length = 8
[batch]
global_batch = 12
)";

/// `settings` as for --set.
struct RunLayout {
  std::string name;
  Index ranks = 1;
  std::vector<std::string> settings;
};

/// Worlds of 1 to 4 ranks; with kRunModel they have experts, heads, stages and a vocabulary cut in unequal ways, several ranks with the same
/// key/value head, and a tied embedding on two stages.
inline const std::vector<RunLayout>& run_layouts() {
  static const std::vector<RunLayout> layouts{
      {"one rank", 1, {}},
      {"dp 3", 3, {"parallel.optimizer_sharding=epso"}},
      {"dp 4, whole states", 4, {"parallel.optimizer_sharding=none"}},
      {"dp 2 tp 2", 4, {"parallel.tp=2", "parallel.optimizer_sharding=so"}},
      {"dp 2 ep 2", 4, {"parallel.ep=2", "parallel.optimizer_sharding=epso"}},
      {"pp 2", 2, {"parallel.pp=2", "parallel.layers_per_stage=[3, 1]"}},
      {"pp 2 tp 2", 4, {"parallel.pp=2", "parallel.tp=2", "parallel.pipeline_schedule=zero_bubble"}},
      {"pp 2 dp 2",
       4,
       {"parallel.pp=2", "parallel.order=pp-dp-ep-tp", "parallel.virtual_stages=2", "parallel.pipeline_schedule=interleaved",
        "parallel.optimizer_sharding=none"}},
      {"ep 2 tp 2", 4, {"parallel.ep=2", "parallel.tp=2", "parallel.sequence_parallel=false", "parallel.optimizer_sharding=epso"}}};
  return layouts;
}

/// The first ranks, as many as the layout has; nothing on the others. Collective: over test::world().
inline std::unique_ptr<Communicator> group_of(const RunLayout& layout) {
  if (world().rank() >= layout.ranks) return nullptr;
  std::vector<Index> members;
  for (Index rank = 0; rank < layout.ranks; ++rank) members.push_back(rank);
  return world().subgroup(members, "layout");
}

}  // namespace optimus::test
