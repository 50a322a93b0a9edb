#include "optimus/config/key_path.hpp"

#include <charconv>

namespace optimus {
namespace {

std::optional<Index> to_index(std::string_view text) {
  Index value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

// "sources[1][2]" to a name and its indices.
bool split_step(std::string_view step, std::vector<KeyStep>& steps) {
  const std::size_t bracket = step.find('[');
  const std::string_view name = step.substr(0, bracket);
  if (name.empty()) return false;
  steps.push_back({std::string(name), to_index(name)});
  while (bracket != std::string_view::npos && !step.empty()) {
    const std::size_t open = step.find('['), close = step.find(']');
    if (open == std::string_view::npos) return step.empty();
    if (close == std::string_view::npos) return false;
    const auto index = to_index(step.substr(open + 1, close - open - 1));
    if (!index) return false;
    steps.push_back({"", index});
    step.remove_prefix(close + 1);
    if (!step.empty() && step.front() != '[') return false;
  }
  return true;
}

}  // namespace

std::optional<std::vector<KeyStep>> split_key(std::string_view key) {
  std::vector<KeyStep> steps;
  while (true) {
    const std::size_t dot = key.find('.');
    if (!split_step(key.substr(0, dot), steps)) return std::nullopt;
    if (dot == std::string_view::npos) return steps;
    key.remove_prefix(dot + 1);
  }
}

std::string join_key(std::string_view table, std::string_view name) { return table.empty() ? std::string(name) : std::string(table) + "." + std::string(name); }

}  // namespace optimus
