#pragma once
// The load-balancing loss and the router z-loss: their values and what they add to the router's gradient. Arithmetic on a few E-sized arrays, on the host.
//
//   f[e] = chosen slots of expert e / rows,   P[e] = mean probability of e,   aux = E * sum_e f[e] * P[e]     (perfect balance: K)
//
// over a set of rows. `concatenated`: the rows of all layers together; `per_layer`: each layer's rows, mean over the layers.
// `micro_batch`: all rows; `sequence`: each sequence's rows, mean over the sequences; `global_batch`: f of the whole global batch, P of these rows,
// so that the mean over micro-batches of equal size is the loss of the global batch.
// f is piecewise constant: all of the gradient comes through P, d aux / d p[t,e] = E * f[e] / rows, times 1 / (number of means taken).

#include <span>

#include "optimus/model/moe/config.hpp"
#include "optimus/tensor/view.hpp"

namespace optimus {

/// How a micro-batch's rows are grouped for the loss.
struct BalanceOptions {
  bool is_concatenated = true;
  bool is_by_sequence = false;
  bool is_global = false;
};
/// Errors: ConfigError for names that MoeConfig does not allow.
[[nodiscard]] BalanceOptions balance_options(const MoeConfig& config);

/// Counts of the whole global batch, i64 [L, E] over `rows` rows; empty unless the scope is global_batch.
struct GlobalExpertCounts {
  std::span<const std::int64_t> counts_LE;
  Index rows = 0;
};

/// What a chunk of layers knows of the routing of one micro-batch.
struct BalanceStatistics {
  ConstView counts_LGE, sums_LGE;  ///< i64, f64 [own layers, G, E]: RoutingStatistics of the own layers
  ConstView total_GE;              ///< i64 [G, E]: counts of all layers of the model
  Index first_layer = 0, all_layers = 0;
  Index rows_per_group = 0;
};

/// The balancing loss of one micro-batch whose forward is over. Of layers elsewhere only their summed counts are needed.
class Balance {
 public:
  Balance(const BalanceOptions& options, const BalanceStatistics& statistics, const GlobalExpertCounts& global);

  /// The own layers' part of it, without coefficient: the sum over all chunks is the loss.
  [[nodiscard]] double loss() const;
  /// dp_GE[g,e] = scale * d loss / d p[t,e] for the rows t of group g of the own layer `layer`.   Types: f32 or f64.
  void gradient(Index layer, double scale, View dp_GE) const;

 private:
  /// f[e] of the set of rows that group g of `layer` belongs to.
  [[nodiscard]] double fraction(Index layer, Index group, Index expert) const;

  BalanceOptions options_;
  std::span<const std::int64_t> counts_LGE_, total_GE_;
  std::span<const double> sums_LGE_;
  Index layers_, groups_, experts_;  ///< own layers
  Index first_layer_, all_layers_, rows_per_group_;
  GlobalExpertCounts global_;
};

}  // namespace optimus
