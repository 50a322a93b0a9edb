#include "optimus/config/suggest.hpp"

#include <algorithm>
#include <limits>

namespace optimus {
namespace {

std::string_view leaf(std::string_view key) { return key.substr(key.rfind('.') + 1); }

/// The last word of a name with underscores.
bool ends_with_word(std::string_view name, std::string_view word) {
  return name.size() > word.size() && name.ends_with(word) && name[name.size() - word.size() - 1] == '_';
}

}  // namespace

Index edit_distance(std::string_view a, std::string_view b) {
  // rows: distance of the first i, i - 1 and i - 2 letters of a to every beginning of b.
  std::vector<Index> row(b.size() + 1), previous(b.size() + 1), before(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<Index>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, previous);
    std::swap(previous, row);
    row[0] = static_cast<Index>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({previous[j] + 1, row[j - 1] + 1, previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool is_swap = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (is_swap) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

std::string nearest_key(std::string_view key, const std::vector<std::string>& valid) {
  constexpr Index kOtherTable = 2, kLastWord = 4;
  std::string best;
  Index best_distance = std::numeric_limits<Index>::max();
  for (const std::string& candidate : valid) {
    Index distance = std::min(edit_distance(key, candidate), edit_distance(leaf(key), leaf(candidate)) + kOtherTable);
    // "optimizer.sharding" may have meant "parallel.optimizer_sharding".
    if (ends_with_word(leaf(candidate), leaf(key))) distance = std::min(distance, kLastWord);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

}  // namespace optimus
