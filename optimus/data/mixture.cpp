#include "optimus/data/mixture.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "optimus/base/check.hpp"

namespace optimus {
namespace {

constexpr double kTolerance = 1e-9;  // of a share, relative

/// Shares of a period of exactly `period` turns, or nothing if a weight is no whole number of turns.
std::vector<Index> exact_shares(const std::vector<double>& fractions, Index period) {
  std::vector<Index> shares;
  for (const double fraction : fractions) {
    const double turns = fraction * static_cast<double>(period);
    const double whole = std::round(turns);
    if (whole < 1 || std::abs(turns - whole) > kTolerance * turns) return {};
    shares.push_back(static_cast<Index>(whole));
  }
  return std::accumulate(shares.begin(), shares.end(), Index{0}) == period ? shares : std::vector<Index>();
}

/// At least one turn each, the rest by weight, largest remainders rounded up.
std::vector<Index> rounded_shares(const std::vector<double>& fractions, Index period) {
  const auto n = static_cast<Index>(fractions.size());
  std::vector<Index> shares;
  std::vector<std::pair<double, std::size_t>> remainders;
  for (std::size_t i = 0; i < fractions.size(); ++i) {
    const double turns = fractions[i] * static_cast<double>(period - n);
    shares.push_back(1 + static_cast<Index>(std::floor(turns)));
    remainders.emplace_back(turns - std::floor(turns), i);
  }
  std::stable_sort(remainders.begin(), remainders.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  Index left = period - std::accumulate(shares.begin(), shares.end(), Index{0});
  for (std::size_t i = 0; left > 0; i = (i + 1) % remainders.size(), --left) ++shares[remainders[i].second];
  return shares;
}

std::vector<Index> shares_of(std::span<const double> weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<double> fractions;
  for (const double weight : weights) fractions.push_back(weight / total);
  for (auto period = static_cast<Index>(weights.size()); period <= Mixture::kMaxPeriod; ++period) {
    std::vector<Index> shares = exact_shares(fractions, period);
    if (!shares.empty()) return shares;
  }
  return rounded_shares(fractions, Mixture::kMaxPeriod);
}

}  // namespace

Mixture::Mixture(std::span<const double> weights) : shares_(shares_of(weights)) {
  OPTIMUS_CHECK(!weights.empty() && static_cast<Index>(weights.size()) <= kMaxPeriod, "a mixture has 1 to 65,536 sources");
  const Index period = std::accumulate(shares_.begin(), shares_.end(), Index{0});
  std::vector<Index> had(shares_.size());
  for (Index turn = 0; turn < period; ++turn) {
    std::size_t best = shares_.size();
    Index best_due = 0;
    for (std::size_t i = 0; i < shares_.size(); ++i) {
      if (had[i] * period >= shares_[i] * (turn + 1)) continue;
      const Index due = ceil_div((had[i] + 1) * period, shares_[i]);
      if (best == shares_.size() || due < best_due) {
        best = i;
        best_due = due;
      }
    }
    OPTIMUS_CHECK(best < shares_.size(), "no source may take this turn");
    source_.push_back(static_cast<std::int32_t>(best));
    earlier_.push_back(static_cast<std::int32_t>(had[best]++));
  }
}

Mixture::Turn Mixture::turn(Index position) const {
  const Index period_index = position / period(), place = position % period();
  const Index source = source_[static_cast<std::size_t>(place)];
  return {source, period_index * shares_[static_cast<std::size_t>(source)] + earlier_[static_cast<std::size_t>(place)]};
}

}  // namespace optimus
