#pragma once
// Numbers of things in messages.

#include <string>
#include <string_view>

#include "optimus/base/index.hpp"

namespace optimus {

/// "1 rank", "2 ranks": for nouns whose plural only takes an s.
[[nodiscard]] inline std::string counted(Index count, std::string_view noun) {
  std::string text = std::to_string(count) + ' ';
  text += noun;
  if (count != 1) text += 's';
  return text;
}

}  // namespace optimus
