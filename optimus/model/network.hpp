#pragma once
// The computation of Transformer over arenas that somebody else owns, so that the same code runs for real and as a plan.

#include <memory>
#include <span>
#include <vector>

#include "optimus/model/runtime.hpp"
#include "optimus/model/weights.hpp"

namespace optimus {

/// Where a network puts what it makes.
struct NetworkMemory {
  Arena& temporaries;
  std::span<Arena> slots;  ///< what backward needs of each micro-batch under way
};

class Network {
 public:
  /// `is_planning`: the arenas measure and `backend` is dry; every number in results is then 0.
  Network(const TransformerOptions& options, Backend& backend, const ModelGroups& groups, const NetworkMemory& memory, bool is_planning);

  void bind(std::span<const View> weights, std::span<const View> gradients);
  void set_probe(Transformer::Probe probe) { probe_ = std::move(probe); }
  void set_hooks(TransformerHooks hooks);
  [[nodiscard]] std::span<const std::int64_t> expert_counts() const { return counts_LE_; }

  void forward(Index slot, const MicroBatch& batch, const LossScale& scale, const StageRows& received, const StageRows& sent);
  MicroBatchResult backward(Index slot, const MicroBatch& batch, const LossScale& scale, const GlobalExpertCounts& global, const StageRows& received,
                            const StageRows& sent);
  /// backward without the weight gradients of linear layers, which backward_weight makes later.
  MicroBatchResult backward_input(Index slot, const MicroBatch& batch, const LossScale& scale, const GlobalExpertCounts& global, const StageRows& received,
                                  const StageRows& sent);
  void backward_weight(Index slot);
  MicroBatchResult forward_only(const MicroBatch& batch, const StageRows& received, const StageRows& sent, const LogitsSink& sink);

 private:
  /// One micro-batch between forward and backward. The views lie in the slot's arena.
  struct Saved {
    Index begin = 0;  ///< of its memory in the slot's arena; in the first slot the tables lie before it
    std::vector<LayerSaved> layers;
    std::vector<WeightProducts> products;  ///< of each layer, put off
    View counts_LGE, sums_LGE;             ///< of the own layers
    View total_GE;                         ///< of all layers so far; in backward, of all layers
    View d_lD;                             ///< gradient of the last layer's output, on the chunk with the head
    double lse_squares = 0;                ///< sum over own layers and rows
    double lm_loss_sum = 0;
  };

  Saved& begin(Index slot, const MicroBatch& batch);
  Saved& resume(Index slot, const MicroBatch& batch);
  void check(const MicroBatch& batch) const;
  [[nodiscard]] View first_rows(const MicroBatch& batch, const StageRows& received);
  void run_layer(Saved& s, Index layer, View x_lD, View y_lD);
  double run_head(const MicroBatch& batch, const HeadCall& call);
  MicroBatchResult backward(Saved& s, const MicroBatch& batch, const LossScale& scale, const GlobalExpertCounts& global, const StageRows& received,
                            const StageRows& sent);
  void backward_layers(Saved& s, const LossScale& scale, const GlobalExpertCounts& global, View d_lD);
  void add_counts(Saved& s, const StageRows& received, const StageRows& sent) const;
  [[nodiscard]] Balance balance(const Saved& s, const GlobalExpertCounts& global) const;
  MicroBatchResult finish(Saved& s, const MicroBatch& batch, const GlobalExpertCounts& global);
  void will_read(Index layer) const;
  void has_gradients(Index layer) const;
  void report(std::string_view what, Index layer, ConstView value) const;

  ModelRuntime runtime_;
  const ModelContext& context_;  ///< of runtime_
  const ModelConfig& model_;     ///< of runtime_
  LayerRange range_;
  std::span<Arena> slots_;
  BalanceOptions balance_options_;
  ModelWeights weights_, gradients_;
  bool has_gradients_ = false;
  bool is_split_ = false;     ///< of the backward under way: its weight gradients are put off
  std::vector<Saved> saved_;  ///< of each slot
  std::vector<std::int64_t> counts_LE_;
  Transformer::Probe probe_;
  TransformerHooks hooks_;
};

}  // namespace optimus
