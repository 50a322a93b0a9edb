#pragma once
// The middle of some numbers.

#include <algorithm>
#include <vector>

namespace optimus {

/// Of an even number the lower of the middle two.  `values` must not be empty.
[[nodiscard]] inline double lower_median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace optimus
