#pragma once
// "Did you mean": the nearest of the words that would have been right.

#include <string>
#include <string_view>
#include <vector>

#include "optimus/base/index.hpp"

namespace optimus {

/// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b` (each letter is touched once at most).
[[nodiscard]] Index edit_distance(std::string_view a, std::string_view b);
/// The key nearest to `key` among full paths; a right name in a wrong table counts as near, and so does the last word of a name. Ties to the first; empty if `valid` is.
[[nodiscard]] std::string nearest_key(std::string_view key, const std::vector<std::string>& valid);

}  // namespace optimus
