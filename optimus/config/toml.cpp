#include "optimus/config/toml.hpp"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <functional>
#include <sstream>

#include "optimus/base/error.hpp"

namespace optimus {
namespace {

using WhereOf = std::function<std::string(const toml::node&)>;

template <class Value>
std::string as_text(const Value& value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

ConfigNode convert(const toml::node& node, const WhereOf& where_of) {
  using Kind = ConfigNode::Kind;
  ConfigNode result;
  result.where = where_of(node);
  if (const auto* table = node.as_table()) {
    for (const auto& [key, child] : *table) result.members.push_back({std::string(key.str()), convert(child, where_of)});
  } else if (const auto* array = node.as_array()) {
    result.kind = Kind::kList;
    for (const auto& child : *array) result.elements.push_back(convert(child, where_of));
  } else if (const auto* boolean = node.as_boolean()) {
    result.kind = Kind::kBool;
    result.boolean = boolean->get();
  } else if (const auto* integer = node.as_integer()) {
    result.kind = Kind::kInteger;
    result.integer = integer->get();
  } else if (const auto* real = node.as_floating_point()) {
    result.kind = Kind::kFloat;
    result.real = real->get();
  } else if (const auto* text = node.as_string()) {
    result.kind = Kind::kString;
    result.text = text->get();
  } else {
    result.kind = Kind::kOther;
    if (const auto* date = node.as_date()) result.text = as_text(date->get());
    if (const auto* time = node.as_time()) result.text = as_text(time->get());
    if (const auto* date_time = node.as_date_time()) result.text = as_text(date_time->get());
  }
  return result;
}

/// The parser follows dotted keys ("a.b.c") by recursion: thousands of steps would end the program without a word.
void check_key_depth(std::string_view text, const std::string& name) {
  constexpr int kMostDots = 256;
  int dots = 0, line = 1;
  char quote = 0;
  bool is_comment = false;
  for (const char c : text) {
    if (c == '\n') {
      ++line;
      dots = 0;
      quote = 0;
      is_comment = false;
    } else if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#') {
      is_comment = true;
    }
    if (c == '.' && quote == 0 && !is_comment && ++dots > kMostDots)
      throw ConfigError(fmt::format("[config] {}:{}: not valid TOML: a key of more than {} steps", name, line, kMostDots));
  }
}

}  // namespace

ConfigNode parse_toml(std::string_view text, const std::string& name) {
  check_key_depth(text, name);
  try {
    const toml::table table = toml::parse(text, std::string_view(name));
    return convert(table, [&](const toml::node& node) { return fmt::format("{}:{}", name, node.source().begin.line); });
  } catch (const toml::parse_error& e) {
    const auto& place = e.source().begin;
    throw ConfigError(fmt::format("[config] {}:{}:{}: not valid TOML: {}", name, place.line, place.column, e.description()));
  }
}

std::optional<ConfigNode> parse_toml_value(std::string_view text, const std::string& where) {
  check_key_depth(text, where);
  try {
    const toml::table table = toml::parse("value = " + std::string(text));
    // A line break in the text could smuggle in further keys: then it is no single value.
    if (table.size() != 1 || !table.contains("value")) return std::nullopt;
    return convert(*table.get("value"), [&](const toml::node&) { return where; });
  } catch (const toml::parse_error&) {
    return std::nullopt;
  }
}

}  // namespace optimus
