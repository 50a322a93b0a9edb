#pragma once
// How rows reach the ranks of the experts that they chose, and how sums come back: the part of an expert layer in which ranks meet.
//
// Legend: P ranks that share the experts of a layer (EP), e experts on each. T rows of this rank; N rows at hand: those of all ranks that the experts of this one
// see, rank by rank, in their order; S copies of own rows, one for each rank that a row goes to. W: any width.

#include <memory>
#include <string_view>

#include "optimus/comm/placement.hpp"
#include "optimus/model/moe/router.hpp"

namespace optimus {

/// Where the rows of one layer, or of a part of them, go. Decided in forward and kept for backward.
struct Route {
  IndexRange rows;    ///< of the T rows, the same on every rank
  DispatchPlan sent;  ///< own rows by the ranks that they go to, which stand in the place of experts; only all_to_all
  View counts_2P;     ///< i64: rows that go to each rank, then rows that come from each; only all_to_all
};

/// Rows of one width that travel, in memory from the arena of temporaries: whoever starts them holds a Scratch until they are there.
struct Traffic {
  View home_SW, away_NW;  ///< as they leave or come back, and at the experts; do not exist where nothing travels
  ConstView arrived_NW;   ///< dispatched rows; valid after wait()
  View sums_NW;           ///< what the experts here have for each row at hand
  View out_TW;            ///< the sums over all ranks
  std::unique_ptr<Request> request;

  void wait();
};

/// Two directions, each for rows of any width: dispatch takes a row to all ranks of its experts, combine adds up what these ranks have for it. Forward dispatches
/// inputs and combines outputs, backward dispatches the outputs' gradients and combines those of the inputs.
///
/// Collective: over c.ep, all but allocate(); the members call the same ones in the same order with equally many rows.
/// Numerics:   sums over ranks in rank order, in f32 (f64: f64), rounded once; f64, f32 and bf16.
/// With c.overlap false a transfer that was started is over; the results are the same bits.
class Dispatcher {
 public:
  virtual ~Dispatcher() = default;
  /// The most rows at hand when every rank has `rows` of its own: the memory that is needed, whatever the router chooses.
  [[nodiscard]] virtual Index row_capacity(const MoeContext& c, Index rows) const = 0;
  /// Memory for the route of `rows`, kept for backward.
  [[nodiscard]] virtual Route allocate(const MoeContext& c, const IndexRange& rows) const = 0;

  /// Decides the routes of all parts of a layer's rows from their choices.   Writes: what allocate() made.
  virtual void decide(const MoeContext& c, ConstView index_TK, std::span<const Route> routes) const = 0;
  [[nodiscard]] virtual Index rows_at_hand(const MoeContext& c, const Route& route) const = 0;

  /// Starts the way of rows_TW (those of `route`; i32 too) to their experts. They must not change until wait().
  [[nodiscard]] virtual Traffic start_dispatch(const MoeContext& c, const Route& route, ConstView rows_TW) const = 0;
  /// Gives `traffic` a place for sums_NW whose totals will be out_TW. It may be the memory of arrived_NW, if there is any.
  virtual void prepare_combine(const MoeContext& c, const Route& route, View out_TW, Traffic& traffic) const = 0;
  /// Starts the way of sums_NW, written, back to the ranks of their rows.
  virtual void start_combine(const MoeContext& c, const Route& route, Traffic& traffic) const = 0;
  /// out_TW[t] = sum of sums_NW of row t over its ranks, overwritten.
  virtual void finish_combine(const MoeContext& c, const Route& route, Traffic& traffic) const = 0;
};

/// The experts of this rank.
[[nodiscard]] IndexRange local_experts(const MoeContext& c);

/// All experts and all rows are on this rank.
[[nodiscard]] std::unique_ptr<Dispatcher> make_local_dispatcher();
/// Every rank sees all rows: all-gather, and reduce-scatter of the sums. N = P * T.
[[nodiscard]] std::unique_ptr<Dispatcher> make_all_gather_dispatcher();
/// A row goes once to each rank that has experts of it, and one sum comes back from each: all-to-all. N as the router chose, at most P * T; S at most T * min(K, P).
[[nodiscard]] std::unique_ptr<Dispatcher> make_all_to_all_dispatcher();
/// By MoeConfig::dispatcher where several ranks share the experts.  Errors: ConfigError for another name.
[[nodiscard]] std::unique_ptr<Dispatcher> make_dispatcher(std::string_view name, const Communicator* ep);

}  // namespace optimus
