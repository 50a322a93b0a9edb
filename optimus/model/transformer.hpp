#pragma once
// The model on one rank: forward and backward of one micro-batch over parameters that somebody else owns.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "optimus/backend/backend.hpp"
#include "optimus/comm/communicator.hpp"
#include "optimus/comm/placement.hpp"
#include "optimus/model/config.hpp"
#include "optimus/model/moe/balance.hpp"
#include "optimus/model/moe/config.hpp"
#include "optimus/model/stage.hpp"
#include "optimus/tensor/arena.hpp"

namespace optimus {

/// `[recompute]`: blocks whose insides are computed again in backward instead of being kept.
struct RecomputeConfig {
  bool norm = false, attention = false, moe = false;
};
template <class Visitor> void describe(Visitor& v, RecomputeConfig& c) {
  v.field("norm", c.norm, "Compute the norms again in backward.");
  v.field("attention", c.attention, "Compute the attention block again in backward; only its input is kept.");
  v.field("moe", c.moe, "Compute the expert block (the MLP of a dense model) again in backward; only its input and the routing are kept.");
}

/// Everything that fixes the computation of a model on this rank.
struct TransformerOptions {
  ModelConfig model;
  MoeConfig moe;
  RecomputeConfig recompute;
  DType weights = DType::kF32;    ///< of weights and activations: f32, bf16 (f64 with the ref backend, for proof)
  DType gradients = DType::kF32;  ///< of parameter gradients
  Index micro_batch = 1;          ///< largest number of sequences in a micro-batch
  Index sequence_length = 1;      ///< longest sequence
  bool overlap = true;            ///< communicate while computing, where a block can; the results are the same bits
  bool splits_backward = false;   ///< stage_backward_input and stage_backward_weight in place of stage_backward, with memory for that
  bool has_backward = true;       ///< false: forward only, with memory for that alone

  std::optional<LayerRange> layers;  ///< of a pipeline's chunk; none: the whole model
  ModelSplit split;                  ///< this rank's place in the ranks that share layers
  bool sequence_parallel = false;    ///< with split.tp > 1: norms and residuals on rows / tp rows a rank
  Index slots = 1;                   ///< micro-batches between forward and backward at once

  [[nodiscard]] LayerRange layer_range() const { return layers ? *layers : all_layers(model); }
};

/// The groups that compute one model together with this rank; nullptr where it is alone.
struct ModelGroups {
  Communicator* tp = nullptr;
  Communicator* ep = nullptr;
};

/// Rows of one micro-batch.
struct MicroBatch {
  Index sequences = 0, sequence_length = 0;
  std::span<const std::int32_t> inputs;  ///< [sequences * sequence_length]
  std::span<const std::int32_t> labels;  ///< as inputs; ops::kIgnoredLabel: no loss there
};

/// What the gradients are multiplied with, fixed before forward so that loss and backward can be one pass.
struct LossScale {
  double lm = 0;   ///< 1 / valid labels of the whole global batch
  double aux = 0;  ///< aux_loss_coefficient / (micro-batches of all data ranks)
  double z = 0;    ///< z_loss_coefficient / (micro-batches of all data ranks)
};

/// Of one micro-batch, for the caller to add up over micro-batches and ranks. Of a chunk, its layers' parts of aux_loss and z_loss, and lm_loss_sum on the last.
struct MicroBatchResult {
  double lm_loss_sum = 0;  ///< -log p over valid labels
  Index valid_labels = 0;
  double aux_loss = 0;  ///< balancing loss of these rows, without its coefficient (perfect balance: K); 0 for a dense model
  double z_loss = 0;    ///< mean over layers and rows of the squared log-sum-exp of the router's logits, without its coefficient
};

/// What passes between neighbouring chunks of a pipeline. The ends of the pipeline have nothing to receive, or to send.
struct StageRows {
  View rows_TD;    ///< rows that this rank holds: forward activations, backward their gradient
  View counts_GE;  ///< i64 expert counts: forward of all layers so far, backward of all layers of the model; does not exist for a dense model
};
/// Shapes of StageRows for the largest micro-batch, without memory.
[[nodiscard]] StageRows stage_rows(const TransformerOptions& options);

/// Places where the owner of weights and gradients takes part. Layers are numbered as in ParamSpec::layer: -1 the embedding, num_hidden_layers the head.
struct TransformerHooks {
  std::function<void(Index layer)> before_forward;  ///< the weights of `layer` are about to be read for the first time since the last step
  std::function<void(Index layer)> after_backward;  ///< the gradients of `layer` have all of this micro-batch
  std::function<void()> poll;                       ///< called between operations, for transfers to go on
};

/// Called with blocks of logits rows [first_row, first_row + rows), f32 or the weights' type, valid during the call. Under tensor parallelism a rank is told
/// the columns of its own part of the vocabulary, local_box() of the head: whoever wants whole rows puts them together.
using LogitsSink = std::function<void(Index first_row, ConstView logits_TV)>;

/// The network, or the layers of it that stand on this rank. Holds no parameters: it is bound to views of weights and gradients in the order of parameter_specs().
///
/// Memory: every activation and temporary comes from one arena, sized at construction by running this same code over a measuring arena and the dry
/// backend; no call allocates afterwards.
/// Numerics: with and without recomputation bitwise equal.
/// Collective: over groups.tp and groups.ep, all calls; their members call them in the same order, those of tp with the same micro-batches.
class Transformer {
 public:
  /// `temporaries`: an arena for what no call leaves behind, of at least plan_activations().temporary_bytes, shared with other chunks of this rank; none: its own.
  /// Errors: ConfigError for a sequence longer than max_position_embeddings; UnsupportedError for an element type that the backend does not compute on.
  Transformer(const TransformerOptions& options, Backend& backend, const ModelGroups& groups = {}, Arena* temporaries = nullptr);
  ~Transformer();
  Transformer(Transformer&&) noexcept;

  /// Views of this rank's parts in the order of parameter_specs(options.model, layers); gradients may be empty (forward only).
  /// Errors: ShapeError naming the first parameter whose shape or element type is not that of the options.
  void bind(std::span<const View> weights, std::span<const View> gradients);

  /// Forward and backward; gradients are added to what is there.
  /// `global_counts`: i64 [L, E] expert counts of the whole global batch over `rows` rows (scope global_batch: of forward() over all its micro-batches,
  /// summed over the data ranks), else empty. The mean of aux_loss over equally large micro-batches is then the global batch's.
  /// Errors: DataError for a token id or label outside the vocabulary; ShapeError for a micro-batch larger than the options say.
  MicroBatchResult forward_backward(const MicroBatch& batch, const LossScale& scale, const GlobalExpertCounts& global_counts);

  /// Forward and losses only. With scope global_batch aux_loss is balanced over these rows.
  MicroBatchResult forward(const MicroBatch& batch, const LogitsSink& sink = {});

  /// One chunk's forward of a micro-batch; what backward needs is kept in `slot`. The last chunk computes the loss and its gradient here.
  void stage_forward(Index slot, const MicroBatch& batch, const LossScale& scale, const StageRows& received, const StageRows& sent);
  /// The chunk's backward of the micro-batch in `slot`; `received.rows_TD` is used up. The result has the sums of this chunk's layers and, on the last, the loss.
  MicroBatchResult stage_backward(Index slot, const MicroBatch& batch, const LossScale& scale, const GlobalExpertCounts& global_counts,
                                  const StageRows& received, const StageRows& sent);
  /// stage_backward in two parts, with the same bits. The first makes what the chunk before waits for; the weight gradients of linear layers are left for the
  /// second, which may come any time later, before the slot's next forward. after_backward is told of all layers in the second part. Between the parts the slot keeps
  /// what the second reads. The second parts come in the order of the first.
  MicroBatchResult stage_backward_input(Index slot, const MicroBatch& batch, const LossScale& scale, const GlobalExpertCounts& global_counts,
                                        const StageRows& received, const StageRows& sent);
  void stage_backward_weight(Index slot);
  /// One chunk's forward that no backward follows; losses on the last chunk.
  MicroBatchResult stage_forward_only(const MicroBatch& batch, const StageRows& received, const StageRows& sent, const LogitsSink& sink = {});

  /// Expert choices of the last forward or stage call that returned a result, i64 [L, E] of the own layers: rows that chose expert e. Empty for a dense model.
  [[nodiscard]] std::span<const std::int64_t> expert_counts() const;
  void set_hooks(TransformerHooks hooks);
  /// Told values as they pass (tests, debug); keeping them all would cost memory. `what` is "router_logits" [T, E] of a layer, f32 or f64, or "hidden" [T, D]: after the
  /// embedding as layer 0, after block l as layer l + 1, the last one after the final norm.
  using Probe = std::function<void(std::string_view what, Index layer, ConstView value)>;
  void set_probe(Probe probe);

  /// plan_activations().bytes.
  [[nodiscard]] Index arena_bytes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Bytes of activations (of TransformerOptions::slots micro-batches) and temporaries, and the arithmetic of one micro-batch's forward and backward.
struct ActivationPlan {
  Index bytes = 0;            ///< in all
  Index temporary_bytes = 0;  ///< the part of them that chunks on one rank can share
  double gemm_flops = 0, attention_flops = 0;
};
/// Takes no memory of that size.
[[nodiscard]] ActivationPlan plan_activations(const TransformerOptions& options);

}  // namespace optimus
