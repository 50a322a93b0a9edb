#pragma once
// Numbers of things in messages.

#include <concepts>
#include <string>
#include <string_view>

namespace optimus {

/// "1 rank", "0 ranks", "2 processes", "3 micro-batches": for nouns with a regular plural, but those that end in y.
[[nodiscard]] std::string counted(std::integral auto count, std::string_view noun) {
  std::string text = std::to_string(count) + ' ';
  text += noun;
  if (count != 1) text += noun.ends_with('s') || noun.ends_with("ch") ? "es" : "s";
  return text;
}

}  // namespace optimus
