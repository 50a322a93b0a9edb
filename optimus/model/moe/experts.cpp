#include "optimus/model/moe/experts.hpp"

#include <fmt/format.h>

namespace optimus {

std::unique_ptr<Experts> make_experts(std::string_view implementation) {
  if (implementation == "fast") return make_fast_sparse_moe();
  if (implementation == "reference") return make_reference_sparse_moe();
  throw ConfigError(fmt::format("[moe] there is no implementation \"{}\"; set moe.implementation to \"fast\" or \"reference\"", implementation));
}

}  // namespace optimus
