#pragma once
// Keys as paths: "data.sources[1].weight" is data, sources, 1, weight.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "optimus/base/index.hpp"

namespace optimus {

/// One step of a path: a name, or a number that selects an element of a list.
struct KeyStep {
  std::string name;
  std::optional<Index> index;  ///< set for "[1]" and for a step that is all digits
};

/// The steps of `key`, or nothing if it is not a path (an empty step, an open bracket).
[[nodiscard]] std::optional<std::vector<KeyStep>> split_key(std::string_view key);
/// "table.name", or "name" if `table` is empty.
[[nodiscard]] std::string join_key(std::string_view table, std::string_view name);

}  // namespace optimus
