#pragma once
// The visitor that writes a struct as TOML which reads back equal.

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "optimus/config/key_path.hpp"
#include "optimus/config/value.hpp"

namespace optimus {

/// Values of a table come first, then its subtables, as TOML wants it. What is absent is left as a comment.
class ConfigWriter {
 public:
  ConfigWriter() = default;

  template <ConfigValue T> void field(std::string_view name, T& value, std::string_view /*doc*/, Range /*range*/ = {}) { field_at(name, &value); }
  void choice(std::string_view name, std::string& value, std::initializer_list<std::string_view> allowed, std::string_view doc);

  template <class Struct> void table(std::string_view name, Struct& value, std::string_view /*doc*/) {
    const std::string path = join_key(path_, name);
    add_table(path, "[" + path + "]", value);
  }
  template <class Struct> void array(std::string_view name, std::vector<Struct>& values, std::string_view /*doc*/) {
    if (values.empty()) add_line(name, "[]");
    const std::string path = join_key(path_, name);
    for (Struct& value : values) add_table(path, "[[" + path + "]]", value);
  }

  [[nodiscard]] std::string text() const { return values_ + tables_; }

 private:
  void field_at(std::string_view name, FieldRef value);
  template <class Struct> void add_table(const std::string& path, const std::string& header, Struct& value) {
    ConfigWriter inner;
    inner.path_ = path;
    describe(inner, value);
    tables_ += "\n" + header + "\n" + inner.text();
  }
  void add_line(std::string_view name, std::string_view value);

  std::string path_, values_, tables_;
};

/// `value` as TOML writes it; empty for an optional that is not set.
[[nodiscard]] std::string toml_text(FieldRef value);

}  // namespace optimus
