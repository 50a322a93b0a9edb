#pragma once
// Where a configuration comes from: a file and overrides, the keys that are valid, and everything found wrong so far.

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "optimus/config/field.hpp"
#include "optimus/config/tree.hpp"

namespace optimus {

/// One file with its overrides applied, and the problems of reading it.
///
/// Keys are full paths: "model.hidden_size", "data.sources[1].weight".
class ConfigSource {
 public:
  /// `text` is TOML; `name` is what messages call it. An override is "key.path=value"; the value is TOML, or a string if it is not TOML.
  /// Lists are reached by number: "faults[0].kind=nan"; the number after the last one appends.
  /// Errors: ConfigError if the text is not TOML. A bad override is a problem like others.
  ConfigSource(std::string_view text, std::string name, const std::vector<std::string>& overrides);
  /// Reads the file.  Errors: ConfigError if that fails.
  [[nodiscard]] static ConfigSource from_file(const std::filesystem::path& path, const std::vector<std::string>& overrides);

  [[nodiscard]] const ConfigNode& root() const { return root_; }
  /// Whether the file or an override sets `key`.
  [[nodiscard]] bool is_set(std::string_view key) const { return find(key) != nullptr; }
  /// "file:line" or "--set …" of `key`; of its table if the key itself is not set; else the file.
  [[nodiscard]] std::string where(std::string_view key) const;

  /// Notes that `pattern` (a key with "[]" for every index) is valid. What lies in a value is not looked at; what lies in a table is.
  void add_valid(const std::string& pattern, bool is_value);
  void add_problem(std::string_view key, std::string_view message);
  /// Whether a problem of `key`, or of an element of its list, has been found: its field has not the value that was meant.
  [[nodiscard]] bool is_faulty(std::string_view key) const;
  /// Adds those of `problems` that are not known yet.
  void add_problems(const Problems& problems);
  /// One problem for every key that is set but not valid.
  void find_unknown_keys();
  /// Errors: ConfigError listing every problem, if there are any.
  void throw_if_problems() const;

 private:
  [[nodiscard]] const ConfigNode* find(std::string_view key) const;
  void apply_override(const std::string& text);
  void find_unknown_keys(const ConfigNode& node, const std::string& path, const std::string& pattern);
  void report_unknown(const std::string& path, const std::string& pattern);

  std::string name_;
  ConfigNode root_;
  std::map<std::string, bool> is_value_;  ///< of each valid pattern
  std::vector<std::string> problems_;
  std::vector<std::string> faulty_keys_;
};

}  // namespace optimus
