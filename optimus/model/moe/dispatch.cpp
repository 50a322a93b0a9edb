#include "optimus/model/moe/dispatch.hpp"

#include "optimus/ops/moe.hpp"

namespace optimus {
namespace {

class LocalDispatcher : public Dispatcher {
 public:
  [[nodiscard]] Index local_experts(const MoeShape& shape) const override { return shape.num_experts; }
  [[nodiscard]] Index slot_capacity(const MoeShape& shape, Index rows) const override { return checked_mul(rows, shape.top_k); }

  [[nodiscard]] Dispatch allocate(const MoeContext& c, Index rows) const override {
    const Index slots = slot_capacity(c.shape, rows);
    return {.plan = {.segments_e = c.kept->alloc(DType::kI64, {local_experts(c.shape) + 1}),
                     .input_indices_R = c.kept->alloc(DType::kI32, {slots}),
                     .row_offsets_T = c.kept->alloc(DType::kI64, {rows + 1}),
                     .output_indices_R = c.kept->alloc(DType::kI32, {slots}),
                     .selected_k_R = c.kept->alloc(DType::kI32, {slots})},
            .weight_R = c.kept->alloc(c.wide, {slots})};
  }

  void forward(const MoeContext& c, ConstView x_TD, const Routing& routing, const Dispatch& dispatch, View x_RD) const override {
    ops::build_dispatch(c.backend, routing.index_TK, 0, dispatch.plan);
    ops::slot_weights(c.backend, routing.weight_TK, dispatch.plan, dispatch.weight_R);
    ops::gather_rows(c.backend, x_TD, dispatch.plan, x_RD);
  }
  void combine(const MoeContext& c, ConstView y_RD, const Routing& routing, const Dispatch& dispatch, View y_TD) const override {
    ops::combine_forward(c.backend, y_RD, routing.weight_TK, dispatch.plan, y_TD);
  }
  void combine_backward(const MoeContext& c, ConstView dy_TD, const Dispatch& dispatch, View dy_RD) const override {
    ops::gather_rows(c.backend, dy_TD, dispatch.plan, dy_RD);
  }
  void backward(const MoeContext& c, ConstView dx_RD, ConstView dweight_R, const Dispatch& dispatch, View dx_TD, View dweight_TK) const override {
    ops::scatter_rows(c.backend, dx_RD, dispatch.plan, dx_TD, Write::kOverwrite);
    ops::slot_weights_backward(c.backend, dweight_R, dispatch.plan, dweight_TK);
  }
};

}  // namespace

std::unique_ptr<Dispatcher> make_local_dispatcher() { return std::make_unique<LocalDispatcher>(); }

}  // namespace optimus
