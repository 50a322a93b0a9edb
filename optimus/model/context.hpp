#pragma once
// What every block of the model is given: where to compute, where to put memory, and the rows at hand.
//
// Legend of the folder: B sequences, S positions, T = B * S rows, D hidden, Q = H * A width of the queries (= D), G = Hkv * A width of keys and values,
// F intermediate, V vocabulary.

#include "optimus/backend/backend.hpp"
#include "optimus/model/transformer.hpp"

namespace optimus {

struct ModelContext {
  Backend& backend;
  Arena& arena;
  const TransformerOptions& options;
  DType wide;        ///< of statistics: f32, or f64 beside f64
  bool is_planning;  ///< memory does not exist: nothing may be read from it or written to it on the host
  Index sequences = 0, sequence_length = 0;
  View positions_T, cos_PA, sin_PA;  ///< rotary positions of the rows; tables of [positions, A / 2]

  [[nodiscard]] DType dtype() const { return options.weights; }
  [[nodiscard]] const ModelConfig& model() const { return options.model; }
  [[nodiscard]] Index rows() const { return sequences * sequence_length; }
  [[nodiscard]] View alloc_rows(Index width) const { return arena.alloc(dtype(), {rows(), width}); }
};

}  // namespace optimus
