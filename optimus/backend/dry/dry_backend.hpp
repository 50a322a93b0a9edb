#pragma once
// Computes nothing and counts: with a measuring Arena the same model code becomes its own memory and arithmetic plan.

#include <memory>

#include "optimus/backend/backend.hpp"

namespace optimus {

/// What the kernels called so far would have done.
///
///   gemm_flops:       2*T*I*O for each of linear forward, backward_input, backward_weight, router products included; grouped: 2*capacity*I*O
///   attention_flops:  4*A for each (query, key, head) that causality lets through in forward, 8*A in backward; borders of documents are not seen.
///                     The scores that backward makes again are not counted: this is the arithmetic the model needs, as MFU divides it.
///   other_bytes:      operands read plus results written by everything else, each once, an accumulated result twice; no caches
struct WorkCount {
  double gemm_flops = 0, attention_flops = 0, other_bytes = 0;
};

/// A backend that touches no memory: every view may point anywhere. sum_squares is 0. Slot-indexed views count with their whole capacity.
class DryBackend : public Backend {
 public:
  [[nodiscard]] virtual const WorkCount& work() const = 0;
};
[[nodiscard]] std::unique_ptr<DryBackend> make_dry_backend();

}  // namespace optimus
