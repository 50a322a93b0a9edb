#pragma once
// The types a field may have, and the words for them.

#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "optimus/config/field.hpp"

namespace optimus {

/// A field of any type that v.field() takes, by address.
using FieldRef = std::variant<bool*, Index*, double*, std::string*,                                                              //
                              std::vector<bool>*, std::vector<Index>*, std::vector<double>*, std::vector<std::string>*,          //
                              std::optional<bool>*, std::optional<Index>*, std::optional<double>*, std::optional<std::string>*,  //
                              std::optional<std::vector<bool>>*, std::optional<std::vector<Index>>*, std::optional<std::vector<double>>*,
                              std::optional<std::vector<std::string>>*>;

namespace field_types {
template <class T, class Variant> inline constexpr bool is_alternative = false;
template <class T, class... Types> inline constexpr bool is_alternative<T, std::variant<Types...>> = (std::same_as<T, Types> || ...);
template <class T> inline constexpr bool is_list = false;
template <class T> inline constexpr bool is_list<std::vector<T>> = true;
template <class T> inline constexpr bool is_optional = false;
template <class T> inline constexpr bool is_optional<std::optional<T>> = true;
}  // namespace field_types

/// What v.field() takes.
template <class T>
concept ConfigValue = field_types::is_alternative<T*, FieldRef>;

/// "an integer", "a list of numbers", … of a type that is not optional.
template <ConfigValue T>
[[nodiscard]] constexpr std::string_view type_words() {
  if constexpr (std::same_as<T, bool>) return "true or false";
  else if constexpr (std::same_as<T, Index>) return "an integer";
  else if constexpr (std::same_as<T, double>) return "a number";
  else if constexpr (std::same_as<T, std::string>) return "a string";
  else if constexpr (std::same_as<T, std::vector<bool>>) return "a list of true and false";
  else if constexpr (std::same_as<T, std::vector<Index>>) return "a list of integers";
  else if constexpr (std::same_as<T, std::vector<double>>) return "a list of numbers";
  else return "a list of strings";
}

/// "at least 1", "above 0 and at most 1", …; empty if nothing is excluded.
[[nodiscard]] std::string range_words(const Range& range);
[[nodiscard]] bool is_in(const Range& range, double value);

}  // namespace optimus
