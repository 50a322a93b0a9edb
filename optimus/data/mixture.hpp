#pragma once
// The order in which weighted sources take turns.

#include <cstdint>
#include <span>
#include <vector>

#include "optimus/base/index.hpp"

namespace optimus {

/// A repeating table of turns.
///
/// The weights become whole shares m_i of a period M = sum m_i: the smallest M up to 65,536 that gives them exactly (to 1e-9), else 65,536 with
/// the largest remainders rounded up and at least one turn each. Turn p goes, of the sources whose share by then is not yet used up
/// (n_i * M < m_i * (p + 1)), to the one whose next turn is due first (smallest ceil((n_i + 1) * M / m_i)), ties to the first source.
/// After any number of turns p each source has had m_i * p / M of them to within less than one.
/// Source:   Tijdeman 1980, "The chairman assignment problem"; Baruah, Cohen, Plaxton, Varvel 1996, "Proportionate progress".
class Mixture {
 public:
  static constexpr Index kMaxPeriod = 65536;

  /// Weights above 0, at most 65,536 of them.
  explicit Mixture(std::span<const double> weights);

  struct Turn {
    Index source = 0, earlier = 0;
  };  ///< whose turn, and how many it had before
  [[nodiscard]] Turn turn(Index position) const;
  [[nodiscard]] std::span<const Index> shares() const { return shares_; }
  [[nodiscard]] Index period() const { return static_cast<Index>(source_.size()); }

 private:
  std::vector<Index> shares_;
  std::vector<std::int32_t> source_, earlier_;  // by turn of the period
};

}  // namespace optimus
