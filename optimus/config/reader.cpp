#include "optimus/config/reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "optimus/config/key_path.hpp"
#include "optimus/config/suggest.hpp"

namespace optimus {
namespace {

using Kind = ConfigNode::Kind;

template <class T>
std::optional<T> convert(const ConfigNode& node) {
  if constexpr (std::same_as<T, bool>) {
    if (node.kind == Kind::kBool) return node.boolean;
  } else if constexpr (std::same_as<T, Index>) {
    if (node.kind == Kind::kInteger) return node.integer;
  } else if constexpr (std::same_as<T, double>) {
    if (node.kind == Kind::kFloat) return node.real;
    if (node.kind == Kind::kInteger) return static_cast<double>(node.integer);
  } else {
    if (node.kind == Kind::kString) return node.text;
  }
  return std::nullopt;
}

// What forbids `value`, or nothing.
template <class T>
std::string outside(const T& value, const Range& range) {
  if constexpr (std::same_as<T, Index> || std::same_as<T, double>) {
    const auto number = static_cast<double>(value);
    if (!std::isfinite(number)) return fmt::format("must be a finite number; found {}", number);
    if (!is_in(range, number)) return fmt::format("must be {}; found {}", range_words(range), value);
  }
  if constexpr (std::same_as<T, std::string>) {
    if (value.find('\0') != std::string::npos) return "must not have a NUL character in it: the system would cut it short there";
  }
  return "";
}

std::string wrong_type(std::string_view wanted, const ConfigNode& node) { return fmt::format("must be {}; found {}", wanted, node.describe_value()); }

struct Target {
  ConfigSource& source;
  const std::string& key;
};

template <class T>
void read(const ConfigNode& node, T& value, const Range& range, Target target) {
  if constexpr (field_types::is_optional<T>) {
    typename T::value_type inner{};
    read(node, inner, range, target);
    value = std::move(inner);
  } else if constexpr (field_types::is_list<T>) {
    using Element = typename T::value_type;
    if (node.kind != Kind::kList) return target.source.add_problem(target.key, wrong_type(type_words<T>(), node));
    value.clear();
    for (std::size_t i = 0; i < node.elements.size(); ++i) {
      const std::string key = fmt::format("{}[{}]", target.key, i);
      Element element{};
      read(node.elements[i], element, range, {target.source, key});
      value.push_back(element);
    }
  } else {
    const auto converted = convert<T>(node);
    if (!converted) return target.source.add_problem(target.key, wrong_type(type_words<T>(), node));
    const std::string problem = outside(*converted, range);
    if (!problem.empty()) return target.source.add_problem(target.key, problem);
    value = *converted;
  }
}

}  // namespace

void ConfigReader::field_at(std::string_view name, FieldRef value, const Range& range) {
  const ConfigNode* node = find_value(name);
  if (node == nullptr) return;
  const std::string key = join_key(here_.path, name);
  std::visit([&](auto* field) { read(*node, *field, range, {source_, key}); }, value);
}

void ConfigReader::choice(std::string_view name, std::string& value, std::initializer_list<std::string_view> allowed, std::string_view /*doc*/) {
  const ConfigNode* node = find_value(name);
  if (node == nullptr) return;
  if (node->kind == Kind::kString && std::find(allowed.begin(), allowed.end(), node->text) != allowed.end()) {
    value = node->text;
    return;
  }
  std::string list, nearest;
  Index distance = 3;  // farther than two slips, a guess would only distract
  for (const std::string_view word : allowed) {
    list += fmt::format("{}\"{}\"", list.empty() ? "" : ", ", word);
    const Index here = node->kind == Kind::kString ? edit_distance(node->text, word) : distance;
    if (here < distance) {
      distance = here;
      nearest = fmt::format("; did you mean \"{}\"?", word);
    }
  }
  source_.add_problem(join_key(here_.path, name), fmt::format("must be one of {}; found {}{}", list, node->describe_value(), nearest));
}

const ConfigNode* ConfigReader::find_value(std::string_view name) {
  source_.add_valid(join_key(here_.pattern, name), true);
  return here_.node == nullptr ? nullptr : here_.node->find(name);
}

ConfigReader::Place ConfigReader::enter_table(std::string_view name) {
  Place place{here_.node == nullptr ? nullptr : here_.node->find(name), join_key(here_.path, name), join_key(here_.pattern, name)};
  source_.add_valid(place.pattern, false);
  if (place.node != nullptr && place.node->kind != Kind::kTable) {
    source_.add_problem(place.path, wrong_type("a table", *place.node));
    place.node = nullptr;
  }
  return place;
}

ConfigReader::Place ConfigReader::element_pattern(std::string_view name) {
  const std::string pattern = join_key(here_.pattern, name);
  source_.add_valid(pattern, false);
  return {nullptr, join_key(here_.path, name) + "[]", pattern + "[]"};
}

std::optional<std::vector<ConfigReader::Place>> ConfigReader::enter_array(const Place& outer, std::string_view name) {
  const ConfigNode* list = outer.node == nullptr ? nullptr : outer.node->find(name);
  if (list == nullptr) return std::nullopt;
  const std::string path = join_key(outer.path, name), pattern = join_key(outer.pattern, name) + "[]";
  if (list->kind != Kind::kList) {
    source_.add_problem(path, wrong_type("a list of tables", *list));
    return std::nullopt;
  }
  std::vector<Place> places;
  for (std::size_t i = 0; i < list->elements.size(); ++i) {
    Place place{&list->elements[i], fmt::format("{}[{}]", path, i), pattern};
    if (place.node->kind != Kind::kTable) {
      source_.add_problem(place.path, wrong_type("a table", *place.node));
      place.node = nullptr;
    }
    places.push_back(std::move(place));
  }
  return places;
}

}  // namespace optimus
