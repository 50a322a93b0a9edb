#pragma once

#include <string>

#include "optimus/model/config.hpp"

namespace optimus {

/// The fields in which two models differ, under their names in config.json: "hidden_size 64 there, 32 here, ...".
[[nodiscard]] std::string model_differences(const ModelConfig& there, const ModelConfig& here);

}  // namespace optimus
