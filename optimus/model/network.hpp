#pragma once
// The computation of Transformer over an arena that somebody else owns, so that the same code runs for real and as a plan.

#include <memory>
#include <span>
#include <vector>

#include "optimus/model/runtime.hpp"
#include "optimus/model/weights.hpp"

namespace optimus {

class Network {
 public:
  /// `is_planning`: `arena` measures and `backend` is dry; every number in results is then 0.
  Network(const TransformerOptions& options, Backend& backend, Arena& arena, bool is_planning);

  void bind(std::span<const View> weights, std::span<const View> gradients);
  MicroBatchResult forward_backward(const MicroBatch& batch, const LossScale& scale, const GlobalExpertCounts& global);
  MicroBatchResult forward(const MicroBatch& batch, const LogitsSink& sink);
  [[nodiscard]] std::span<const std::int64_t> expert_counts() const { return counts_LE_; }
  void set_probe(Transformer::Probe probe) { probe_ = std::move(probe); }

 private:
  void begin(const MicroBatch& batch);
  void check(const MicroBatch& batch) const;
  [[nodiscard]] ConstView rows_view(std::span<const std::int32_t> values) const;
  void run_layer(Index layer, View x_TD, View y_TD);
  double run_head(const MicroBatch& batch, const HeadCall& call);
  void backward_layers(const LossScale& scale, const GlobalExpertCounts& global, View d_TD);
  [[nodiscard]] Balance balance(const GlobalExpertCounts& global) const;
  void finish(const MicroBatch& batch, const GlobalExpertCounts& global, MicroBatchResult& result);
  void report(std::string_view what, Index layer, ConstView value) const;

  ModelRuntime runtime_;
  const ModelContext& context_;  ///< of runtime_
  const ModelConfig& model_;     ///< of runtime_
  BalanceOptions balance_options_;
  ModelWeights weights_, gradients_;
  bool has_gradients_ = false;
  std::vector<LayerSaved> saved_;
  View counts_LGE_, sums_LGE_;
  double lse_squares_ = 0;  ///< sum over layers and rows
  std::vector<std::int64_t> counts_LE_;
  Transformer::Probe probe_;
};

}  // namespace optimus
