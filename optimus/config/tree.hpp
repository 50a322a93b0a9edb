#pragma once
// A configuration as read, before anything knows what the keys mean: values with the place each came from.

#include <string>
#include <string_view>
#include <vector>

#include "optimus/base/index.hpp"

namespace optimus {

struct ConfigMember;

/// One value, list or table. `where` names the line or the override that set it: "run.toml:12" or "--set run.steps=5".
struct ConfigNode {
  enum class Kind { kTable, kList, kBool, kInteger, kFloat, kString, kOther };

  Kind kind = Kind::kTable;
  std::string where;
  bool boolean = false;
  Index integer = 0;
  double real = 0;
  std::string text;                   ///< of kString; of kOther (dates and times) as written
  std::vector<ConfigMember> members;  ///< of kTable
  std::vector<ConfigNode> elements;   ///< of kList

  /// Member `key` of a table, or nullptr.
  [[nodiscard]] const ConfigNode* find(std::string_view key) const;
  [[nodiscard]] ConfigNode* find(std::string_view key);
  /// The value as TOML writes it, and its type in words: `"many" (a string)`.
  [[nodiscard]] std::string describe_value() const;
};

/// One key of a table.
struct ConfigMember {
  std::string name;
  ConfigNode value;
};

/// `text` in quotes, with TOML's escapes.
[[nodiscard]] std::string toml_string(std::string_view text);
/// Shortest text that reads back as the same double, and never as an integer: "1.0", "0.1", "1e-08".
[[nodiscard]] std::string toml_number(double value);

}  // namespace optimus
