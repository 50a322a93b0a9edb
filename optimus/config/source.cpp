#include "optimus/config/source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "optimus/base/counted.hpp"
#include "optimus/base/file.hpp"
#include "optimus/config/key_path.hpp"
#include "optimus/config/suggest.hpp"
#include "optimus/config/toml.hpp"

namespace optimus {
namespace {

using Kind = ConfigNode::Kind;

const ConfigNode* child_of(const ConfigNode& node, const KeyStep& step) {
  if (node.kind == Kind::kTable) return step.name.empty() ? nullptr : node.find(step.name);
  if (node.kind != Kind::kList || !step.index || *step.index >= static_cast<Index>(node.elements.size())) return nullptr;
  return &node.elements[static_cast<std::size_t>(*step.index)];
}

// The child, made as an empty table where it may be made: a new key of a table, the next element of a list.
ConfigNode* child_or_new(ConfigNode& node, const KeyStep& step, const std::string& where) {
  if (const ConfigNode* child = child_of(node, step)) return const_cast<ConfigNode*>(child);
  ConfigNode fresh;
  fresh.where = where;
  if (node.kind == Kind::kTable && !step.name.empty()) return &node.members.emplace_back(ConfigMember{step.name, std::move(fresh)}).value;
  if (node.kind == Kind::kList && step.index == static_cast<Index>(node.elements.size())) return &node.elements.emplace_back(std::move(fresh));
  return nullptr;
}

std::string_view without_spaces(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t");
  return begin == std::string_view::npos ? "" : text.substr(begin, end - begin + 1);
}

// Tables are merged key by key, everything else is replaced.
void put(ConfigNode& target, ConfigNode value) {
  if (target.kind != Kind::kTable || value.kind != Kind::kTable) {
    target = std::move(value);
    return;
  }
  for (auto& [key, member] : value.members) {
    if (ConfigNode* existing = target.find(key)) put(*existing, std::move(member));
    else target.members.push_back({key, std::move(member)});
  }
}

}  // namespace

ConfigSource::ConfigSource(std::string_view text, std::string name, const std::vector<std::string>& overrides)
    : name_(std::move(name)), root_(parse_toml(text, name_)) {
  for (const std::string& override_text : overrides) apply_override(override_text);
}

ConfigSource ConfigSource::from_file(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  std::string text;
  try {
    text = read_file(path);
  } catch (const FileError& e) {
    throw ConfigError(fmt::format("[config] no configuration to read: {}", e.what()));
  }
  return {text, path.string(), overrides};
}

const ConfigNode* ConfigSource::find(std::string_view key) const {
  const auto steps = split_key(key);
  if (!steps) return nullptr;
  const ConfigNode* node = &root_;
  for (const KeyStep& step : *steps) {
    node = child_of(*node, step);
    if (node == nullptr) return nullptr;
  }
  return node;
}

std::string ConfigSource::where(std::string_view key) const {
  while (true) {
    if (const ConfigNode* node = find(key)) return node->where;
    const std::size_t end = key.find_last_of(".[");
    if (end == std::string_view::npos) return name_;
    key = key.substr(0, end);
  }
}

void ConfigSource::apply_override(const std::string& text) {
  const std::string where = "--set " + text;
  const std::size_t equals = text.find('=');
  const std::string_view key = without_spaces(std::string_view(text).substr(0, equals));
  const auto steps = split_key(key);
  if (equals == std::string::npos || !steps) {
    problems_.push_back(where + ": not of the form key.path=value");
    return;
  }
  const std::string value_text(without_spaces(std::string_view(text).substr(equals + 1)));
  ConfigNode value;
  if (auto parsed = parse_toml_value(value_text, where)) {
    value = std::move(*parsed);
  } else {
    value.kind = Kind::kString;
    value.text = value_text;
    value.where = where;
  }
  ConfigNode* node = &root_;
  for (const KeyStep& step : *steps) {
    node = child_or_new(*node, step, where);
    if (node == nullptr) {
      problems_.push_back(fmt::format("{}: nothing has the key {}: it leads through a value, or past the end of a list", where, key));
      return;
    }
  }
  put(*node, std::move(value));
  if (node->kind != Kind::kTable) node->where = where;
}

void ConfigSource::add_valid(const std::string& pattern, bool is_value) { is_value_[pattern] = is_value; }

void ConfigSource::add_problem(std::string_view key, std::string_view message) {
  faulty_keys_.emplace_back(key);
  std::string problem = fmt::format("{}: {}: {}", where(key), key, message);
  if (std::find(problems_.begin(), problems_.end(), problem) == problems_.end()) problems_.push_back(std::move(problem));
}

bool ConfigSource::is_faulty(std::string_view key) const {
  return std::any_of(faulty_keys_.begin(), faulty_keys_.end(),
                     [&](std::string_view faulty) { return faulty.starts_with(key) && (faulty.size() == key.size() || faulty[key.size()] == '['); });
}

void ConfigSource::add_problems(const Problems& problems) {
  for (const Problems::Item& item : problems.items()) add_problem(item.key, item.message);
}

void ConfigSource::find_unknown_keys() { find_unknown_keys(root_, "", ""); }

void ConfigSource::find_unknown_keys(const ConfigNode& node, const std::string& path, const std::string& pattern) {
  for (const auto& [name, member] : node.members) {
    const std::string member_path = join_key(path, name), member_pattern = join_key(pattern, name);
    const auto valid = is_value_.find(member_pattern);
    if (valid == is_value_.end()) {
      report_unknown(member_path, member_pattern);
    } else if (!valid->second) {
      find_unknown_keys(member, member_path, member_pattern);
    }
  }
  for (std::size_t i = 0; i < node.elements.size(); ++i) find_unknown_keys(node.elements[i], fmt::format("{}[{}]", path, i), pattern + "[]");
}

void ConfigSource::report_unknown(const std::string& path, const std::string& pattern) {
  std::vector<std::string> valid;
  for (const auto& [candidate, is_value] : is_value_) valid.push_back(candidate);
  add_problem(path, fmt::format("unknown key; the nearest valid key is {}", nearest_key(pattern, valid)));
}

void ConfigSource::throw_if_problems() const {
  if (problems_.empty()) return;
  std::string message = fmt::format("[config] {} in the configuration ({}):", counted(problems_.size(), "problem"), name_);
  for (std::size_t i = 0; i < problems_.size(); ++i) message += fmt::format("\n  {}. {}", i + 1, problems_[i]);
  throw ConfigError(message);
}

}  // namespace optimus
