#pragma once
// The experts of one layer, behind one interface with two implementations that must agree to rounding.

#include <memory>
#include <string_view>

#include "optimus/model/moe/dispatch.hpp"

namespace optimus {

/// Stacked weights of this rank's experts, or their gradients.
struct ExpertWeights {
  View w_gate_eFD, w_up_eFD, w_down_eDF;
};

/// What backward needs of the experts besides the layer's input and its routing. y_RD is not kept: the routing weight's gradient comes from the activations.
struct ExpertsSaved {
  Dispatch dispatch;
  View x_RD, gate_RF, up_RF;
};

/// One backward call.
struct ExpertsGradient {
  ConstView dy_TD;
  View dx_TD;        ///< overwritten
  View dweight_TK;   ///< overwritten
  ExpertWeights dw;  ///< accumulated; an expert without rows is left as it is
};

///   y[t] = sum_k weight[t,k] * expert_{index[t,k]}(x[t]);   expert(x) = Wdown (SiLU(Wgate x) * Wup x)
class Experts {
 public:
  virtual ~Experts() = default;
  [[nodiscard]] virtual ExpertsSaved allocate(const MoeContext& c, Index rows) const = 0;
  /// Writes `saved` and y_TD. A y_TD that does not exist: only what backward needs (recomputation).
  virtual void forward(const MoeContext& c, const ExpertWeights& w, ConstView x_TD, const Routing& routing, const ExpertsSaved& saved, View y_TD) const = 0;
  /// May overwrite `saved`: a forward serves one backward.
  virtual void backward(const MoeContext& c, const ExpertWeights& w, ConstView x_TD, const Routing& routing, const ExpertsSaved& saved,
                        const ExpertsGradient& g) const = 0;
};

/// FastSparseMoE: all experts at once, grouped by sorted slots.
[[nodiscard]] std::unique_ptr<Experts> make_fast_sparse_moe();
/// SparseMoE: one expert after the other.
[[nodiscard]] std::unique_ptr<Experts> make_reference_sparse_moe();
/// By MoeConfig::implementation.  Errors: ConfigError for another name.
[[nodiscard]] std::unique_ptr<Experts> make_experts(std::string_view implementation);

}  // namespace optimus
