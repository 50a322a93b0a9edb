#pragma once
// TOML text to a tree. The only file that knows the TOML library is toml.cpp.

#include <optional>
#include <string>
#include <string_view>

#include "optimus/config/tree.hpp"

namespace optimus {

/// The tree of a whole document; `name` is what messages call it.
/// Errors: ConfigError with line and column and the reason.
[[nodiscard]] ConfigNode parse_toml(std::string_view text, const std::string& name);
/// One TOML value, or nothing if `text` is none. `where` is put on every node.
[[nodiscard]] std::optional<ConfigNode> parse_toml_value(std::string_view text, const std::string& where);

}  // namespace optimus
