#pragma once
// Which rank stands where: the four axes of parallelism as pure arithmetic. No communication, no memory that grows with the world.

#include <string>
#include <vector>

#include "optimus/base/index.hpp"
#include "optimus/config/field.hpp"

namespace optimus {

/// `[parallel]`: sizes of the axes, and what goes with them.
struct ParallelConfig {
  Index tp = 1, ep = 1, pp = 1;
  std::string order = "dp-pp-ep-tp";
  bool sequence_parallel = true;
  std::string pipeline_schedule = "1f1b";
  Index virtual_stages = 1;
  std::vector<Index> layers_per_stage;
  std::string optimizer_sharding = "epso";
  bool overlap = true;
  std::string two_level = "auto";
  Index bucket_elements = Index{1} << 25;
};

template <class Visitor> void describe(Visitor& v, ParallelConfig& c) {
  v.field("tp", c.tp, "Tensor-parallel degree: ranks that share each matrix.", at_least(1));
  v.field("ep", c.ep, "Expert-parallel degree: ranks that share the experts of a layer.", at_least(1));
  v.field("pp", c.pp, "Pipeline-parallel degree: ranks that share the layers. The data-parallel degree is world / (tp*ep*pp).", at_least(1));
  v.choice("order", c.order, {"dp-pp-ep-tp", "pp-dp-ep-tp"}, "Rank order, slowest axis first.");
  v.field("sequence_parallel", c.sequence_parallel, "With tp > 1, spread the rows of norms and residuals over the tp ranks.");
  v.choice("pipeline_schedule", c.pipeline_schedule, {"1f1b", "gpipe", "interleaved", "zero_bubble"}, "Order of forward and backward passes in the pipeline.");
  v.field("virtual_stages", c.virtual_stages, "Chunks of layers a stage holds (interleaved only).", at_least(1));
  v.field("layers_per_stage", c.layers_per_stage, "Explicit number of layers of each stage; empty: as even as possible, the first stages one more.",
          at_least(0));
  v.choice("optimizer_sharding", c.optimizer_sharding, {"epso", "so", "none"},
           "Where optimizer states live: over each parameter's replica group, over DP only, or everywhere.");
  v.field("overlap", c.overlap, "Communicate while computing. The results are the same bytes either way.");
  v.choice("two_level", c.two_level, {"auto", "on", "off"},
           "Gradients and weights travel inside each node first, then between nodes; auto: where several nodes take part and one has several ranks. The "
           "results are the same to rounding.");
  v.field("bucket_elements", c.bucket_elements,
          "Number of parameters whose gradients are summed, and whose weights are gathered, in one transfer. A model much smaller than this has nothing to "
          "overlap.",
          at_least(1));
}

/// What can be said without knowing the world: stages and layers per stage.
void validate(const ParallelConfig& config, Problems& problems);
/// Whether `world` ranks can have this layout; the message has both numbers.
void validate_layout(const ParallelConfig& config, Index world, Problems& problems);

/// Coordinates of one rank.
struct Coordinates {
  Index dp = 0, pp = 0, ep = 0, tp = 0;
};

/// The axes a group runs along; kDpEp: DP and EP together, dp*EP + ep its member index.
enum class Axis { kDp, kEp, kTp, kPp, kDpEp, kEpTp, kDpEpTp };
inline constexpr Axis kAxes[] = {Axis::kDp, Axis::kEp, Axis::kTp, Axis::kPp, Axis::kDpEp, Axis::kEpTp, Axis::kDpEpTp};

/// Sizes and order of the axes.
///
///   "dp-pp-ep-tp":  rank = ((dp*PP + pp)*EP + ep)*TP + tp
///   "pp-dp-ep-tp":  rank = ((pp*DP + dp)*EP + ep)*TP + tp
///
/// Data ranks are the DP x EP ranks, index dp*EP + ep: each reads its own rows; PP and TP peers share them.
class Mesh {
 public:
  /// Errors: ConfigError naming both numbers if world is not a multiple of tp*ep*pp; for an order that there is not.
  Mesh(const ParallelConfig& config, Index world);
  /// One rank.
  Mesh() : Mesh(ParallelConfig{}, 1) {}

  [[nodiscard]] Index world() const { return world_; }
  [[nodiscard]] Index dp() const { return dp_; }
  [[nodiscard]] Index pp() const { return pp_; }
  [[nodiscard]] Index ep() const { return ep_; }
  [[nodiscard]] Index tp() const { return tp_; }
  [[nodiscard]] Index data_ranks() const { return dp_ * ep_; }
  [[nodiscard]] Coordinates coordinates(Index rank) const;
  [[nodiscard]] Index rank_of(Coordinates c) const;
  [[nodiscard]] Index data_index(Index rank) const;
  [[nodiscard]] Index group_size(Axis axis) const;
  /// Member index of `rank` in its group along `axis`.
  [[nodiscard]] Index member_index(Index rank, Axis axis) const;
  /// Rank of member `member` of the group of `rank` along `axis`. O(1): nobody needs the whole list.
  [[nodiscard]] Index member_rank(Index rank, Axis axis, Index member) const;
  /// A number that the members of one group share and other groups along the same axis do not: 0 … groups-1.
  [[nodiscard]] Index group_index(Index rank, Axis axis) const;

 private:
  Index world_ = 1, dp_ = 1, pp_ = 1, ep_ = 1, tp_ = 1;
  bool is_pp_slowest_ = false;
};

}  // namespace optimus
