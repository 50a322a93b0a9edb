#pragma once
// The visitor that fills a struct from a configuration, and the one that then looks at conditions between fields.

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "optimus/config/source.hpp"
#include "optimus/config/value.hpp"

namespace optimus {

/// Reads what is set; keeps the default of what is not. A value that cannot be taken becomes a problem of the source and keeps its default too.
class ConfigReader {
 public:
  explicit ConfigReader(ConfigSource& source) : source_(source), here_{&source.root(), "", ""} {}

  template <ConfigValue T> void field(std::string_view name, T& value, std::string_view /*doc*/, Range range = {}) { field_at(name, &value, range); }
  void choice(std::string_view name, std::string& value, std::initializer_list<std::string_view> allowed, std::string_view doc);

  template <class Struct> void table(std::string_view name, Struct& value, std::string_view /*doc*/) {
    const Place outer = here_;
    here_ = enter_table(name);
    describe(*this, value);
    here_ = outer;
  }

  template <class Struct> void array(std::string_view name, std::vector<Struct>& values, std::string_view /*doc*/) {
    const Place outer = here_;
    // An element that is not set at all tells which keys are valid in those that are.
    Struct example;
    here_ = element_pattern(name);
    describe(*this, example);
    if (const auto elements = enter_array(outer, name)) {
      values.assign(elements->size(), Struct{});
      for (std::size_t i = 0; i < values.size(); ++i) {
        here_ = (*elements)[i];
        describe(*this, values[i]);
      }
    }
    here_ = outer;
  }

 private:
  void field_at(std::string_view name, FieldRef value, const Range& range);
  struct Place {
    const ConfigNode* node;  ///< nullptr: nothing is set here
    std::string path, pattern;
  };

  const ConfigNode* find_value(std::string_view name);
  Place enter_table(std::string_view name);
  [[nodiscard]] Place element_pattern(std::string_view name);
  std::optional<std::vector<Place>> enter_array(const Place& outer, std::string_view name);

  ConfigSource& source_;
  Place here_;
};

/// Calls `validate(const Struct&, Problems&)` of the root and of every table that has one. Elements of arrays are left to the owner of the array,
/// who knows their keys.
class ConfigValidator {
 public:
  template <class Struct> void run(Struct& value) {
    describe(*this, value);
    if constexpr (requires(const Struct& s, Problems& p) { validate(s, p); }) validate(value, problems_);
  }
  template <class T> void field(std::string_view, T&, std::string_view, Range = {}) {}
  void choice(std::string_view, std::string&, std::initializer_list<std::string_view>, std::string_view) {}
  template <class Struct> void table(std::string_view, Struct& value, std::string_view) { run(value); }
  template <class Struct> void array(std::string_view, std::vector<Struct>&, std::string_view) {}
  [[nodiscard]] Problems& problems() { return problems_; }

 private:
  Problems problems_;
};

}  // namespace optimus
