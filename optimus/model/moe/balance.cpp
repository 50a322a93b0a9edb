#include "optimus/model/moe/balance.hpp"

#include <fmt/format.h>

namespace optimus {
BalanceOptions balance_options(const MoeConfig& config) {
  const auto is_one_of = [](const std::string& key, const std::string& value, std::initializer_list<std::string_view> allowed) {
    for (const std::string_view name : allowed) {
      if (value == name) return;
    }
    throw ConfigError(fmt::format("[moe] {} = \"{}\" does not exist", key, value));
  };
  is_one_of("moe.aux_loss_layers", config.aux_loss_layers, {"concatenated", "per_layer"});
  is_one_of("moe.aux_loss_scope", config.aux_loss_scope, {"micro_batch", "sequence", "global_batch"});
  return {.is_concatenated = config.aux_loss_layers == "concatenated",
          .is_by_sequence = config.aux_loss_scope == "sequence",
          .is_global = config.aux_loss_scope == "global_batch"};
}

Balance::Balance(const BalanceOptions& options, const BalanceStatistics& s, const GlobalExpertCounts& global)
    : options_(options),
      counts_LGE_(s.counts_LGE.span<std::int64_t>()),
      total_GE_(s.total_GE.span<std::int64_t>()),
      sums_LGE_(s.sums_LGE.span<double>()),
      layers_(s.counts_LGE.size(0)),
      groups_(s.counts_LGE.size(1)),
      experts_(s.counts_LGE.size(2)),
      first_layer_(s.first_layer),
      all_layers_(s.all_layers),
      rows_per_group_(s.rows_per_group),
      global_(global) {
  if (options.is_global != !global.counts_LE.empty())
    throw InternalError("[moe] counts of the global batch belong to aux_loss_scope = \"global_batch\", and to nothing else");
}

double Balance::fraction(Index layer, Index group, Index expert) const {
  const Index set_layers = options_.is_concatenated ? all_layers_ : 1;
  std::int64_t count = 0;
  if (options_.is_global) {
    const Index first = options_.is_concatenated ? 0 : first_layer_ + layer;
    for (Index l = first; l < first + set_layers; ++l) count += global_.counts_LE[static_cast<std::size_t>(l * experts_ + expert)];
  } else if (options_.is_concatenated) {
    count = total_GE_[static_cast<std::size_t>(group * experts_ + expert)];
  } else {
    count = counts_LGE_[static_cast<std::size_t>((layer * groups_ + group) * experts_ + expert)];
  }
  return static_cast<double>(count) / static_cast<double>(set_layers * (options_.is_global ? global_.rows : rows_per_group_));
}

double Balance::loss() const {
  // Of all layers' rows together, a layer has its sum over the rows of all: the same 1 / (layers * rows) as the mean over layers. Likewise for sequences.
  double sum = 0;
  for (Index l = 0; l < layers_; ++l) {
    for (Index g = 0; g < groups_; ++g) {
      for (Index e = 0; e < experts_; ++e) sum += fraction(l, g, e) * sums_LGE_[static_cast<std::size_t>((l * groups_ + g) * experts_ + e)];
    }
  }
  return static_cast<double>(experts_) * sum / static_cast<double>(all_layers_ * groups_ * rows_per_group_);
}

void Balance::gradient(Index layer, double scale, View dp_GE) const {
  const double share = scale * static_cast<double>(experts_) / static_cast<double>(all_layers_ * groups_ * rows_per_group_);
  for (Index g = 0; g < groups_; ++g) {
    for (Index e = 0; e < experts_; ++e) {
      const double value = share * fraction(layer, g, e);
      if (dp_GE.dtype() == DType::kF64) dp_GE.as<double>()[g * experts_ + e] = value;
      else dp_GE.as<float>()[g * experts_ + e] = static_cast<float>(value);
    }
  }
}

}  // namespace optimus
