#include "optimus/train/fault_target.hpp"

#include <charconv>

namespace optimus {
namespace {

/// The number in `name` where the stacked parameter's name has "{}".
std::optional<Index> expert_of(const ParamSpec& spec, const std::string& name) {
  const std::size_t at = spec.name.find("{}");
  if (at == std::string::npos || name.size() <= at) return std::nullopt;
  Index expert = -1;
  std::from_chars(name.data() + at, name.data() + name.size(), expert);
  const bool is_one = expert >= 0 && expert < spec.shape[0] && spec.tensor_name(expert) == name;
  return is_one ? std::optional(expert) : std::nullopt;
}

}  // namespace

std::optional<NamedTensor> find_tensor(const std::vector<ParamSpec>& specs, const std::string& name) {
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (name.empty() || specs[i].name == name) return NamedTensor{.parameter = i, .expert = {}};
    if (const auto expert = expert_of(specs[i], name)) return NamedTensor{.parameter = i, .expert = expert};
  }
  return std::nullopt;
}

std::optional<Index> first_element(const ParamSpec& spec, const NamedTensor& tensor, const ModelSplit& split) {
  if (!tensor.expert) return 0;
  const Box box = local_box(spec, split);
  const Index expert = *tensor.expert - box.begin[0];
  if (expert < 0 || expert >= box.shape[0]) return std::nullopt;
  return expert * box.shape.count_from(1);
}

}  // namespace optimus
