// Token communication as in arXiv:2604.00785 §3, stages 1 and 5: all rows to all ranks, sums back by reduce-scatter.

#include "optimus/model/moe/dispatch.hpp"

namespace optimus {
namespace {

class AllGatherDispatcher : public Dispatcher {
 public:
  [[nodiscard]] Index row_capacity(const MoeContext& c, Index rows) const override { return checked_mul(rows, c.ep->size()); }
  [[nodiscard]] Route allocate(const MoeContext& /*c*/, const IndexRange& rows) const override { return {.rows = rows}; }
  void decide(const MoeContext& /*c*/, ConstView /*index_TK*/, std::span<const Route> /*routes*/) const override {}
  [[nodiscard]] Index rows_at_hand(const MoeContext& c, const Route& route) const override { return row_capacity(c, route.rows.count); }

  [[nodiscard]] Traffic start_dispatch(const MoeContext& c, const Route& route, ConstView rows_TW) const override {
    Traffic traffic{.away_NW = c.arena.alloc(rows_TW.dtype(), {rows_at_hand(c, route), rows_TW.size(1)})};
    traffic.arrived_NW = traffic.away_NW;
    traffic.request = c.ep->start_all_gather(rows_TW, traffic.away_NW);
    if (!c.overlap) traffic.wait();
    return traffic;
  }

  void prepare_combine(const MoeContext& c, const Route& route, View out_TW, Traffic& traffic) const override {
    if (!traffic.away_NW.exists()) traffic.away_NW = c.arena.alloc(out_TW.dtype(), {rows_at_hand(c, route), out_TW.size(1)});
    traffic.sums_NW = traffic.away_NW;
    traffic.out_TW = out_TW;
  }

  void start_combine(const MoeContext& c, const Route& /*route*/, Traffic& traffic) const override {
    traffic.request = c.ep->start_reduce_scatter(traffic.sums_NW, traffic.out_TW);
    if (!c.overlap) traffic.wait();
  }

  void finish_combine(const MoeContext& /*c*/, const Route& /*route*/, Traffic& traffic) const override { traffic.wait(); }
};

}  // namespace

std::unique_ptr<Dispatcher> make_all_gather_dispatcher() { return std::make_unique<AllGatherDispatcher>(); }

}  // namespace optimus
