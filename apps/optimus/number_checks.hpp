#pragma once
// Checks of numbers on the command line. CLI11's own let NaN, overflow and a minus before an unsigned number pass, and print limits of 300 digits.

#include <functional>
#include <limits>
#include <string>

#include "optimus/base/index.hpp"

namespace optimus {

/// For CLI::Option::check: an empty text if the argument is right, else what is allowed.
using ArgumentCheck = std::function<std::string(const std::string& argument)>;

/// A whole number from `smallest` to `largest`, in decimal digits.
[[nodiscard]] ArgumentCheck whole_number(Index smallest, Index largest = std::numeric_limits<Index>::max());
/// A finite number from `smallest` to `largest`.
[[nodiscard]] ArgumentCheck finite_number(double smallest, double largest = std::numeric_limits<double>::infinity());
/// Any text but an empty one: an empty path would mean the current folder.
[[nodiscard]] ArgumentCheck not_empty();

}  // namespace optimus
