#include "optimus/config/writer.hpp"

#include <fmt/format.h>

#include "optimus/config/tree.hpp"

namespace optimus {
namespace {

template <ConfigValue T>
std::string value_text(const T& value) {
  if constexpr (field_types::is_optional<T>) {
    return value ? value_text(*value) : "";
  } else if constexpr (field_types::is_list<T>) {
    std::string list;
    for (const auto& element : value) list += (list.empty() ? "" : ", ") + value_text<typename T::value_type>(element);
    return "[" + list + "]";
  } else if constexpr (std::same_as<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::same_as<T, Index>) {
    return fmt::format("{}", value);
  } else if constexpr (std::same_as<T, double>) {
    return toml_number(value);
  } else {
    return toml_string(value);
  }
}

}  // namespace

std::string toml_text(FieldRef value) {
  return std::visit([](const auto* field) { return value_text(*field); }, value);
}

void ConfigWriter::field_at(std::string_view name, FieldRef value) {
  const std::string text = toml_text(value);
  if (text.empty()) values_ += fmt::format("# {} is not set\n", name);
  else add_line(name, text);
}

void ConfigWriter::choice(std::string_view name, std::string& value, std::initializer_list<std::string_view> /*allowed*/, std::string_view /*doc*/) {
  add_line(name, toml_string(value));
}

void ConfigWriter::add_line(std::string_view name, std::string_view value) { values_ += fmt::format("{} = {}\n", name, value); }

}  // namespace optimus
