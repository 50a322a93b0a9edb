#include "optimus/config/value.hpp"

#include <fmt/format.h>

#include <cmath>

namespace optimus {

std::string range_words(const Range& range) {
  std::string words;
  if (std::isfinite(range.min)) words = fmt::format("{} {}", range.min_is_excluded ? "above" : "at least", range.min);
  if (std::isfinite(range.max)) words += fmt::format("{}at most {}", words.empty() ? "" : " and ", range.max);
  return words;
}

bool is_in(const Range& range, double value) { return (range.min_is_excluded ? value > range.min : value >= range.min) && value <= range.max; }

}  // namespace optimus
