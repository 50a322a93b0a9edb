#include "optimus/model/differences.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace optimus {

std::string model_differences(const ModelConfig& there, const ModelConfig& here) {
  const auto fields = [](const ModelConfig& config) { return nlohmann::json::parse(write_hf_config(config, "float32")); };
  const nlohmann::json a = fields(there), b = fields(here);
  nlohmann::json names = a;
  names.update(b);  // a dense model lacks the fields of the experts
  std::string text;
  for (const auto& [name, unused] : names.items()) {
    const std::string left = a.contains(name) ? a[name].dump() : "absent", right = b.contains(name) ? b[name].dump() : "absent";
    if (left != right) text += fmt::format("{}{} {} there, {} here", text.empty() ? "" : ", ", name, left, right);
  }
  return text;
}

}  // namespace optimus
