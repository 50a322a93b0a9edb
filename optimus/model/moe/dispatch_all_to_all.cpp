// Rows go only where they are wanted, each once to a rank however many experts of that rank it chose; the rank adds up its experts' outputs and sends back one row.

#include <algorithm>
#include <numeric>

#include "optimus/model/moe/dispatch.hpp"
#include "optimus/ops/moe.hpp"

namespace optimus {
namespace {

/// Rows that one rank sends to, and receives from, each.
struct Counts {
  std::span<const Index> sent, received;
};

Counts counts_of(const Route& route) {
  const auto both = route.counts_2P.span<Index>();
  return {.sent = both.first(both.size() / 2), .received = both.last(both.size() / 2)};
}

Index sum(std::span<const Index> counts) { return std::accumulate(counts.begin(), counts.end(), Index{0}); }

class AllToAllDispatcher : public Dispatcher {
 public:
  [[nodiscard]] Index row_capacity(const MoeContext& c, Index rows) const override { return checked_mul(rows, c.ep->size()); }

  [[nodiscard]] Route allocate(const MoeContext& c, const IndexRange& rows) const override {
    const Index ranks = c.ep->size(), copies = checked_mul(rows.count, std::min(c.shape.top_k, ranks));
    return {.rows = rows,
            .sent = {.segments_e = c.kept->alloc(DType::kI64, {ranks + 1}),
                     .input_indices_R = c.kept->alloc(DType::kI32, {copies}),
                     .row_offsets_T = c.kept->alloc(DType::kI64, {rows.count + 1}),
                     .output_indices_R = c.kept->alloc(DType::kI32, {copies}),
                     .selected_k_R = c.kept->alloc(DType::kI32, {copies})},
            .counts_2P = c.kept->alloc(DType::kI64, {2 * ranks})};
  }

  void decide(const MoeContext& c, ConstView index_TK, std::span<const Route> routes) const override {
    Scratch scratch(c.arena);
    for (const Route& route : routes) {
      const ConstView index = index_TK.rows(route.rows.begin, route.rows.begin + route.rows.count);
      const View rank_TK = scratch.like(index);
      ops::expert_ranks(c.backend, index, c.shape.num_experts / c.ep->size(), rank_TK);
      ops::build_dispatch(c.backend, rank_TK, 0, route.sent);
    }
    exchange_counts(c, routes, scratch);
  }

  [[nodiscard]] Index rows_at_hand(const MoeContext& c, const Route& route) const override {
    return c.is_planning ? row_capacity(c, route.rows.count) : sum(counts_of(route).received);
  }

  [[nodiscard]] Traffic start_dispatch(const MoeContext& c, const Route& route, ConstView rows_TW) const override {
    Traffic traffic = open(c, route, rows_TW.dtype(), rows_TW.size(1));
    traffic.arrived_NW = traffic.away_NW;
    ops::gather_rows(c.backend, rows_TW, route.sent, traffic.home_SW);
    start(c, route, Direction::kOut, traffic);
    return traffic;
  }

  void prepare_combine(const MoeContext& c, const Route& route, View out_TW, Traffic& traffic) const override {
    if (!traffic.away_NW.exists()) traffic = open(c, route, out_TW.dtype(), out_TW.size(1));
    traffic.sums_NW = traffic.away_NW;
    traffic.out_TW = out_TW;
  }

  void start_combine(const MoeContext& c, const Route& route, Traffic& traffic) const override { start(c, route, Direction::kBack, traffic); }

  void finish_combine(const MoeContext& c, const Route& route, Traffic& traffic) const override {
    traffic.wait();
    ops::scatter_rows(c.backend, traffic.home_SW, route.sent, traffic.out_TW, Write::kOverwrite);
  }

 private:
  /// Memory for the worst case, of which the N rows at hand are seen.
  [[nodiscard]] Traffic open(const MoeContext& c, const Route& route, DType type, Index width) const {
    return {.home_SW = c.arena.alloc(type, {route.sent.input_indices_R.size(0), width}),
            .away_NW = c.arena.alloc(type, {row_capacity(c, route.rows.count), width}).rows(0, rows_at_hand(c, route))};
  }

  /// counts_2P of every route, in one exchange for all of them.
  static void exchange_counts(const MoeContext& c, std::span<const Route> routes, Scratch& scratch) {
    const auto ranks = static_cast<std::size_t>(c.ep->size()), parts = routes.size();
    const Shape one_each{c.ep->size(), static_cast<Index>(parts)};
    const View each_P = scratch.alloc(DType::kI64, {c.ep->size()}), sent = scratch.alloc(DType::kI64, one_each), received = scratch.like(sent);
    if (c.is_planning) return;
    std::ranges::fill(each_P.span<Index>(), static_cast<Index>(parts));
    for (std::size_t i = 0; i < parts; ++i) {
      const auto segments = routes[i].sent.segments_e.span<Index>();
      for (std::size_t m = 0; m < ranks; ++m) sent.span<Index>()[m * parts + i] = segments[m + 1] - segments[m];
    }
    c.ep->all_to_all_v(sent, each_P.span<Index>(), received, each_P.span<Index>());
    for (std::size_t i = 0; i < parts; ++i) {
      const auto counts = routes[i].counts_2P.span<Index>();
      for (std::size_t m = 0; m < ranks; ++m) {
        counts[m] = sent.span<Index>()[m * parts + i];
        counts[ranks + m] = received.span<Index>()[m * parts + i];
      }
    }
  }

  /// From home_SW to away_NW, or back.
  enum class Direction { kOut, kBack };
  static void start(const MoeContext& c, const Route& route, Direction direction, Traffic& traffic) {
    Scratch scratch(c.arena);
    const View sent_P = scratch.alloc(DType::kI64, {c.ep->size()}), received_P = scratch.like(sent_P);
    if (c.is_planning) return;
    const Counts rows = counts_of(route);
    const auto sent = sent_P.span<Index>(), received = received_P.span<Index>();
    const auto elements = [width = traffic.away_NW.size(1)](Index count) { return count * width; };
    std::ranges::transform(rows.sent, sent.begin(), elements);
    std::ranges::transform(rows.received, received.begin(), elements);
    const View home_SW = traffic.home_SW.rows(0, sum(rows.sent));
    traffic.request = direction == Direction::kOut ? c.ep->start_all_to_all_v(home_SW, sent, traffic.away_NW, received)
                                                   : c.ep->start_all_to_all_v(traffic.away_NW, received, home_SW, sent);
    if (!c.overlap) traffic.wait();
  }
};

}  // namespace

std::unique_ptr<Dispatcher> make_all_to_all_dispatcher() { return std::make_unique<AllToAllDispatcher>(); }

}  // namespace optimus
