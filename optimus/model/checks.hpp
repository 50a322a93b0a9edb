#pragma once
// What must hold between the sizes of a model, whoever gave them.

#include <functional>
#include <string>
#include <string_view>

#include "optimus/model/config.hpp"

namespace optimus {

/// Told one problem: the field's Hugging Face name and what is wrong with it.
using ReportField = std::function<void(std::string_view field, const std::string& message)>;

/// Reports everything that makes the shape impossible to compute with. Sizes that divide each other are named with both numbers.
void check_model(const ModelConfig& config, const ReportField& report);

}  // namespace optimus
