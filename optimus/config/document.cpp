#include "optimus/config/document.hpp"

#include <fmt/format.h>

#include "optimus/config/tree.hpp"
#include "optimus/config/writer.hpp"

namespace optimus {
namespace {

// A bar would end the cell.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string_view type_of(FieldRef value) {
  return std::visit(
      []<class T>(const T*) {
        if constexpr (field_types::is_optional<T>) return type_words<typename T::value_type>();
        else return type_words<T>();
      },
      value);
}

}  // namespace

void ConfigDocument::field_at(std::string_view name, FieldRef value, std::string_view doc, const Range& range) {
  const std::string text = toml_text(value), limits = range_words(range);
  const std::string default_value = text.empty() ? "not set" : fmt::format("`{}`", text);
  add_row(name, default_value, fmt::format("{}{}{}", type_of(value), limits.empty() ? "" : ", ", limits), doc);
}

void ConfigDocument::choice(std::string_view name, std::string& value, std::initializer_list<std::string_view> allowed, std::string_view doc) {
  std::string list;
  for (const std::string_view word : allowed) list += fmt::format("{}`\"{}\"`", list.empty() ? "" : ", ", word);
  add_row(name, fmt::format("`{}`", toml_string(value)), list, doc);
}

void ConfigDocument::add_row(std::string_view name, std::string_view default_value, std::string_view allowed, std::string_view doc) {
  rows_ += fmt::format("| `{}` | {} | {} | {} |\n", name, cell(default_value), cell(allowed), cell(doc));
}

std::string ConfigDocument::text() const {
  const std::string table = rows_.empty() ? "" : "| key | default | allowed | meaning |\n|---|---|---|---|\n" + rows_;
  return table + sections_;
}

}  // namespace optimus
