#pragma once
// What every block of the model is given: where to compute, where to put memory, and the rows at hand.
//
// Legend of the folder: B sequences, S positions, T = B * S rows, D hidden, Q = H * A width of the queries (= D), G = Hkv * A width of keys and values,
// F intermediate, V vocabulary. Under tensor parallelism Q, G, F, V are this rank's part, and l in place of T are its rows between blocks: T, or T / tp with
// sequence parallelism.

#include "optimus/backend/backend.hpp"
#include "optimus/model/moe/weight_products.hpp"
#include "optimus/model/transformer.hpp"

namespace optimus {

struct ModelContext {
  Backend& backend;
  Arena& arena;  ///< of temporaries
  Arena* kept;   ///< of what backward needs
  const TransformerOptions& options;
  Communicator* tp;                                ///< the ranks that share every layer; nullptr: this one alone
  Communicator* kv_sharers;                        ///< those of them that hold the same key and value head; nullptr: no other does
  DType wide;                                      ///< of statistics: f32, or f64 beside f64
  bool is_planning;                                ///< memory does not exist: nothing may be read from it or written to it on the host
  const std::function<void()>* on_poll = nullptr;  ///< told of every poll()
  WeightProducts* deferred = nullptr;              ///< takes the weight gradients, to be made later; nullptr: they are made at once
  Index sequences = 0, sequence_length = 0;
  View positions_T, cos_PA, sin_PA;  ///< rotary positions of the rows; tables of [positions, A / 2]

  [[nodiscard]] DType dtype() const { return options.weights; }
  [[nodiscard]] const ModelConfig& model() const { return options.model; }
  [[nodiscard]] Index rows() const { return sequences * sequence_length; }
  [[nodiscard]] bool is_sequence_parallel() const { return options.sequence_parallel && options.split.tp > 1; }
  /// Rows of norms and residuals on this rank.
  [[nodiscard]] Index local_rows() const { return is_sequence_parallel() ? rows() / options.split.tp : rows(); }

  /// Whether what this rank adds to a gain's gradient counts: of rows that every rank has, the first one's part alone is the whole.
  [[nodiscard]] bool counts_gains() const { return is_sequence_parallel() || options.split.tp_rank == 0; }
  /// Of a key and value head that several ranks hold, the first of them is its owner.
  [[nodiscard]] bool owns_kv() const { return kv_sharers == nullptr || kv_sharers->rank() == 0; }

  /// Sizes of this rank's part of a layer.
  [[nodiscard]] Index heads() const { return model().num_attention_heads / options.split.tp; }
  [[nodiscard]] Index kv_heads() const { return std::max<Index>(1, model().num_key_value_heads / options.split.tp); }
  [[nodiscard]] Index q_size() const { return heads() * model().head_size(); }
  [[nodiscard]] Index kv_size() const { return kv_heads() * model().head_size(); }
  [[nodiscard]] Index intermediate_size() const { return model().intermediate_size / options.split.tp; }
  [[nodiscard]] IndexRange vocabulary() const { return uneven_part(model().vocab_size, options.split.tp, options.split.tp_rank); }

  /// Lets transfers go on, between two pieces of work.
  void poll() const {
    if (on_poll != nullptr) (*on_poll)();
  }
  /// Now or later.
  void weight_gradient(const WeightProduct& product) const {
    if (deferred != nullptr) deferred->push_back(product);
    else make_weight_gradient(backend, product);
  }
  /// Memory for what weight gradients are made of: among the temporaries, or kept where they are made later.
  [[nodiscard]] View operand(DType type, Shape shape) const { return (deferred != nullptr ? *kept : arena).alloc(type, shape); }
  [[nodiscard]] View operand_like(ConstView other) const { return operand(other.dtype(), other.shape()); }
  /// For what is computed again in backward: where operands lie.
  [[nodiscard]] ModelContext recomputation() const { return deferred != nullptr ? *this : temporary(); }

  /// The same, where nothing is kept: what would be lies among the temporaries.
  [[nodiscard]] ModelContext temporary() const {
    ModelContext copy = *this;
    copy.kept = &arena;
    return copy;
  }
  /// Memory that is kept for backward.
  [[nodiscard]] View keep(DType type, Shape shape) const { return kept->alloc(type, shape); }
  [[nodiscard]] View keep_rows(Index width) const { return keep(dtype(), {rows(), width}); }
  [[nodiscard]] View keep_local_rows(Index width) const { return keep(dtype(), {local_rows(), width}); }
};

}  // namespace optimus
