#pragma once
// UTF-8 by hand: finding what is ill-formed, replacing it, single code points.

#include <cstdint>
#include <string>
#include <string_view>

#include "optimus/base/index.hpp"

namespace optimus {

/// Byte offset of the first ill-formed sequence (overlong forms, surrogates and values above U+10FFFF are ill-formed), or -1.
[[nodiscard]] Index find_ill_formed(std::string_view text);

/// `bytes` as UTF-8: each ill-formed part (maximal subpart, Unicode 15 section 3.9) becomes one U+FFFD.
[[nodiscard]] std::string replace_ill_formed(std::string_view bytes);

/// One code point of well-formed text and the bytes it takes.
struct CodePoint {
  char32_t value = 0;
  Index bytes = 0;
};
/// The code point that begins at `offset` of well-formed text.
[[nodiscard]] CodePoint code_point_at(std::string_view text, Index offset);
/// The code point that ends before `offset` (> 0) of well-formed text.
[[nodiscard]] CodePoint code_point_before(std::string_view text, Index offset);

void append_code_point(char32_t value, std::string& out);

}  // namespace optimus
