#pragma once
// Moving rows to the experts that they chose, and back. The part of an expert layer in which ranks meet.

#include <memory>
#include <string_view>

#include "optimus/model/moe/router.hpp"

namespace optimus {

/// Where the rows of one layer went.
struct Dispatch {
  DispatchPlan plan;
  View weight_R;  ///< routing weights in expert-major order
};

/// How rows travel. One slot-major layout whatever the way: rows of local expert 0, then of local expert 1, …; inside an expert in row order.
class Dispatcher {
 public:
  virtual ~Dispatcher() = default;
  /// Experts computed on this rank: [first_expert, first_expert + local_experts).
  [[nodiscard]] virtual Index local_experts(const MoeShape& shape) const = 0;
  /// The most slots that T local rows of every rank can give this rank.
  [[nodiscard]] virtual Index slot_capacity(const MoeShape& shape, Index rows) const = 0;
  [[nodiscard]] virtual Dispatch allocate(const MoeContext& c, Index rows) const = 0;

  /// Stages 1 to 3 and the gather of stage 4: rows of this rank's experts, expert-major.   Writes: `dispatch`, x_RD.
  virtual void forward(const MoeContext& c, ConstView x_TD, const Routing& routing, const Dispatch& dispatch, View x_RD) const = 0;
  /// Stage 5:  y_TD[t] = sum over its slots of weight * y_RD, in f32, in slot order.
  virtual void combine(const MoeContext& c, ConstView y_RD, const Routing& routing, const Dispatch& dispatch, View y_TD) const = 0;
  /// dy_RD[slot] = dy_TD[its row], before the routing weight.
  virtual void combine_backward(const MoeContext& c, ConstView dy_TD, const Dispatch& dispatch, View dy_RD) const = 0;
  /// Gradients back to the rows: dx_TD[t] = sum over its slots of dx_RD, overwritten; dweight_TK from slot order to choices.
  virtual void backward(const MoeContext& c, ConstView dx_RD, ConstView dweight_R, const Dispatch& dispatch, View dx_TD, View dweight_TK) const = 0;
};

/// All experts and all rows are on this rank.
[[nodiscard]] std::unique_ptr<Dispatcher> make_local_dispatcher();

}  // namespace optimus
