#pragma once
// Which number of a rank a fault in a gradient or a weight spoils.

#include <optional>
#include <string>
#include <vector>

#include "optimus/comm/placement.hpp"

namespace optimus {

/// A parameter, or one expert of a stacked one.
struct NamedTensor {
  std::size_t parameter = 0;  ///< its place in the list
  std::optional<Index> expert;
};
/// By its name in ParamSpec or by Hugging Face's name of one expert; the first for an empty name; nothing if no parameter is called so.
[[nodiscard]] std::optional<NamedTensor> find_tensor(const std::vector<ParamSpec>& specs, const std::string& name);

/// The first element of `tensor` in the part of its parameter that a rank holds; nothing if its expert is on other ranks.
[[nodiscard]] std::optional<Index> first_element(const ParamSpec& spec, const NamedTensor& tensor, const ModelSplit& split);

}  // namespace optimus
