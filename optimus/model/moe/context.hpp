#pragma once
// What every part of an expert layer is given: sizes, options, where to compute and where to put temporaries.

#include <functional>

#include "optimus/backend/backend.hpp"
#include "optimus/comm/communicator.hpp"
#include "optimus/model/moe/config.hpp"
#include "optimus/model/moe/weight_products.hpp"
#include "optimus/tensor/arena.hpp"

namespace optimus {

class Dispatcher;

/// Sizes of an expert layer.
struct MoeShape {
  Index hidden_size = 0;
  Index intermediate_size = 0;  ///< of this rank's part of an expert
  Index num_experts = 0, top_k = 0;
  bool norm_topk_prob = false;
};

struct MoeContext {
  Backend& backend;
  Arena& arena;  ///< of temporaries
  Arena* kept;   ///< of what backward needs
  const Dispatcher& dispatcher;
  const MoeConfig& config;
  MoeShape shape;
  Communicator* tp;                                ///< the ranks that share each expert, with the same rows; nullptr: this one alone
  Communicator* ep;                                ///< the ranks that share the experts of a layer, with rows of their own; nullptr: this one alone
  DType dtype;                                     ///< of activations and weights
  DType wide;                                      ///< of statistics, probabilities and routing weights: f32, or f64 beside f64
  bool is_planning;                                ///< memory does not exist: nothing may be read from it on the host
  bool overlap;                                    ///< rows travel while others are computed on
  const std::function<void()>* on_poll = nullptr;  ///< told of every poll()
  WeightProducts* deferred = nullptr;              ///< takes the weight gradients, to be made later; nullptr: they are made at once

  /// Lets what travels get on, between two pieces of work.
  void poll() const {
    if (ep != nullptr && overlap) ep->poll();
    if (on_poll != nullptr) (*on_poll)();
  }
  /// Now or later.
  void weight_gradient(const WeightProduct& product) const {
    if (deferred != nullptr) deferred->push_back(product);
    else make_weight_gradient(backend, product);
  }
  /// Memory for what weight gradients are made of: lasts as long as they need it.
  [[nodiscard]] View operand_like(ConstView other) const { return (deferred != nullptr ? *kept : arena).like(other); }
};

}  // namespace optimus
