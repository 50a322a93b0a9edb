#include "optimus/tensor/param_spec.hpp"

namespace optimus {

std::string ParamSpec::tensor_name(Index index) const {
  const auto at = name.find("{}");
  if (at == std::string::npos) return name;
  return name.substr(0, at) + std::to_string(index) + name.substr(at + 2);
}

}  // namespace optimus
