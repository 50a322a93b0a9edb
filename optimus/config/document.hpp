#pragma once
// The visitor that writes the reference of all keys, as Markdown.

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "optimus/config/key_path.hpp"
#include "optimus/config/value.hpp"

namespace optimus {

/// One section for each table, one row for each key: default, what is allowed, meaning.
class ConfigDocument {
 public:
  ConfigDocument() = default;

  template <ConfigValue T> void field(std::string_view name, T& value, std::string_view doc, Range range = {}) { field_at(name, &value, doc, range); }
  void choice(std::string_view name, std::string& value, std::initializer_list<std::string_view> allowed, std::string_view doc);

  template <class Struct> void table(std::string_view name, Struct& value, std::string_view doc) {
    const std::string path = join_key(path_, name);
    add_section(path, "[" + path + "]", value, doc);
  }
  template <class Struct> void array(std::string_view name, std::vector<Struct>& /*values*/, std::string_view doc) {
    const std::string path = join_key(path_, name);
    Struct example;
    add_section(path, "[[" + path + "]]", example, doc);
  }

  [[nodiscard]] std::string text() const;

 private:
  void field_at(std::string_view name, FieldRef value, std::string_view doc, const Range& range);
  template <class Struct> void add_section(const std::string& path, const std::string& header, Struct& value, std::string_view doc) {
    ConfigDocument inner;
    inner.path_ = path;
    describe(inner, value);
    sections_ += "\n## `" + header + "`\n\n" + std::string(doc) + "\n\n" + inner.text();
  }
  void add_row(std::string_view name, std::string_view default_value, std::string_view allowed, std::string_view doc);

  std::string path_, rows_, sections_;
};

}  // namespace optimus
