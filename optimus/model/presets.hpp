#pragma once
// The published shapes by name.

#include <string_view>

#include "optimus/model/config.hpp"

namespace optimus {

/// Shape of a preset; the name is one of those that describe(ModelOverrides) allows.
/// Source:   arXiv:2604.00785, table 1; OLMo-1B-hf and OLMoE-1B-7B-0924 for what the table leaves out.
[[nodiscard]] ModelConfig model_preset(std::string_view name);

}  // namespace optimus
