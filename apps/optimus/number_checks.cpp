#include "apps/optimus/number_checks.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace optimus {
namespace {

template <class T> bool parse_whole(const std::string& text, T& value) {
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  return code == std::errc{} && end == text.data() + text.size();
}

}  // namespace

ArgumentCheck whole_number(Index smallest, Index largest) {
  return [=](const std::string& argument) -> std::string {
    Index value = 0;
    if (parse_whole(argument, value) && value >= smallest && value <= largest) return {};
    const bool has_limit = largest != std::numeric_limits<Index>::max();
    return fmt::format("must be a whole number, {} or more{}, not \"{}\"", smallest, has_limit ? fmt::format(" and at most {}", largest) : "", argument);
  };
}

ArgumentCheck finite_number(double smallest, double largest) {
  return [=](const std::string& argument) -> std::string {
    double value = 0;
    if (parse_whole(argument, value) && std::isfinite(value) && value >= smallest && value <= largest) return {};
    return fmt::format("must be a number, {} or more{}, not \"{}\"", smallest, std::isfinite(largest) ? fmt::format(" and at most {}", largest) : "", argument);
  };
}

ArgumentCheck not_empty() {
  return [](const std::string& argument) -> std::string { return argument.empty() ? "must not be empty" : ""; };
}

}  // namespace optimus
