#include "optimus/config/tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace optimus {
namespace {

std::string_view kind_words(ConfigNode::Kind kind) {
  switch (kind) {
    case ConfigNode::Kind::kTable: return "a table";
    case ConfigNode::Kind::kList: return "a list";
    case ConfigNode::Kind::kBool: return "a boolean";
    case ConfigNode::Kind::kInteger: return "an integer";
    case ConfigNode::Kind::kFloat: return "a number with a fraction";
    case ConfigNode::Kind::kString: return "a string";
    case ConfigNode::Kind::kOther: return "a date or time";
  }
  return "";
}

std::string value_text(const ConfigNode& node) {
  switch (node.kind) {
    case ConfigNode::Kind::kTable: return "{...}";
    case ConfigNode::Kind::kList: return fmt::format("[{}]", node.elements.empty() ? "" : "...");
    case ConfigNode::Kind::kBool: return node.boolean ? "true" : "false";
    case ConfigNode::Kind::kInteger: return fmt::format("{}", node.integer);
    case ConfigNode::Kind::kFloat: return toml_number(node.real);
    case ConfigNode::Kind::kString: return toml_string(node.text);
    case ConfigNode::Kind::kOther: return node.text;
  }
  return "";
}

}  // namespace

const ConfigNode* ConfigNode::find(std::string_view key) const {
  const auto found = std::find_if(members.begin(), members.end(), [&](const auto& member) { return member.name == key; });
  return found == members.end() ? nullptr : &found->value;
}

ConfigNode* ConfigNode::find(std::string_view key) { return const_cast<ConfigNode*>(std::as_const(*this).find(key)); }

std::string ConfigNode::describe_value() const { return fmt::format("{} ({})", value_text(*this), kind_words(kind)); }

std::string toml_string(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\u{:04X}", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string toml_number(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

}  // namespace optimus
