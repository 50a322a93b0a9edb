#pragma once
// The experts of one layer, behind one interface with two implementations that must agree to rounding.

#include <array>
#include <memory>
#include <span>
#include <string_view>

#include "optimus/model/moe/dispatch.hpp"

namespace optimus {

/// Stacked weights of this rank's experts, or their gradients.
struct ExpertWeights {
  View w_gate_eFD, w_up_eFD, w_down_eDF;
};

/// What backward needs of a part of the rows. y_RD is not kept: the routing weight's gradient comes from the activations.
struct ExpertsPart {
  Route route;
  DispatchPlan plan;  ///< slots of this rank's experts among the N rows at hand; room for the worst case
  View weight_R;      ///< routing weights in expert-major order
  View x_RD, gate_RF, up_RF;
};

/// What backward needs of the experts besides the layer's input and its routing.
///
/// Memory of a part of t rows on each of P ranks, e experts a rank: C = P * t * min(K, e) slots, which is what happens when every rank's rows choose this rank.
///   kept:        C * (D + 2 F) elements, 16 C bytes of lists and weights (f64: 20 C), 8 (P t + 1) bytes; all_to_all: 12 t min(K, P) + 8 t bytes more
///   temporaries: C * (D + F) elements in forward and backward, and what travels: P t (D elements + 8 K bytes); all_to_all: t min(K, P) of the same more
/// Pages that no row ever reaches take no memory from the system.
struct ExpertsSaved {
  static constexpr std::size_t kMaxParts = 2;
  std::array<ExpertsPart, kMaxParts> memory;
  std::size_t num_parts = 0;
  [[nodiscard]] std::span<const ExpertsPart> parts() const { return {memory.data(), num_parts}; }
};

/// Memory for a part of the rows, with the slots of `experts` experts in its plan at a time.
[[nodiscard]] ExpertsPart allocate_part(const MoeContext& c, const IndexRange& rows, Index experts);

/// Slots that a plan of memory and arithmetic, which knows no routing, takes for used: an even share of all.
[[nodiscard]] inline Index mean_slots(const MoeContext& c, const ExpertsPart& part) { return part.route.rows.count * c.shape.top_k; }

/// One backward call.
struct ExpertsGradient {
  ConstView dy_TD;
  View dx_TD;        ///< overwritten
  View dweight_TK;   ///< overwritten
  ExpertWeights dw;  ///< accumulated; an expert without rows is left as it is
};

///   y[t] = sum_k weight[t,k] * expert_{index[t,k]}(x[t]);   expert(x) = Wdown (SiLU(Wgate x) * Wup x)
///
/// Collective: over c.ep, forward and backward. Every rank has rows of its own, equally many, and e experts, which meet the rows of all ranks.
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
