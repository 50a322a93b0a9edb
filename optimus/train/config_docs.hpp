#pragma once
// docs/config.md.

#include <string>

namespace optimus {

/// The reference of all configuration keys, in Markdown.
[[nodiscard]] std::string config_reference();

}  // namespace optimus
