#pragma once
// What the kernel says about this process in /proc and its control groups. Internal to this folder.

#include <optional>
#include <string>
#include <string_view>

#include "optimus/base/index.hpp"

namespace optimus {

/// The whole text of a kernel file, or nothing if there is none (these come and go with kernels and containers).
[[nodiscard]] std::optional<std::string> read_system_file(const std::string& path);
/// Smallest value that `parse` finds in file `name` of this process's control groups, from its own up to the root (version 2).
/// `parse` returns nothing for "no limit".
[[nodiscard]] std::optional<double> control_group_limit(std::string_view name, std::optional<double> (*parse)(const std::string& text));

}  // namespace optimus
