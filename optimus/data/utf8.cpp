#include "optimus/data/utf8.hpp"

#include <simdjson.h>

namespace optimus {
namespace {

/// What begins at `offset`: its length, and whether it is a whole character or the longest ill-formed part.
struct Sequence {
  Index bytes = 1;
  bool is_well_formed = false;
};

/// Bounds of the second byte after `lead` (table 3-7 of the Unicode standard); length 0 if `lead` cannot begin a character.
struct Lead {
  Index bytes = 0;
  unsigned char low = 0x80, high = 0xBF;
};

Lead lead_of(unsigned char c) {
  if (c < 0x80) return {1, 0, 0};
  if (c < 0xC2) return {0, 0, 0};
  if (c < 0xE0) return {2, 0x80, 0xBF};
  if (c < 0xF0) return {3, static_cast<unsigned char>(c == 0xE0 ? 0xA0 : 0x80), static_cast<unsigned char>(c == 0xED ? 0x9F : 0xBF)};
  if (c < 0xF5) return {4, static_cast<unsigned char>(c == 0xF0 ? 0x90 : 0x80), static_cast<unsigned char>(c == 0xF4 ? 0x8F : 0xBF)};
  return {0, 0, 0};
}

Sequence sequence_at(std::string_view text, std::size_t offset) {
  const Lead lead = lead_of(static_cast<unsigned char>(text[offset]));
  if (lead.bytes == 0) return {1, false};
  for (Index i = 1; i < lead.bytes; ++i) {
    if (offset + static_cast<std::size_t>(i) >= text.size()) return {i, false};
    const auto c = static_cast<unsigned char>(text[offset + static_cast<std::size_t>(i)]);
    const bool fits = i == 1 ? c >= lead.low && c <= lead.high : (c & 0xC0U) == 0x80U;
    if (!fits) return {i, false};
  }
  return {lead.bytes, true};
}

}  // namespace

Index find_ill_formed(std::string_view text) {
  if (simdjson::validate_utf8(text)) return -1;
  std::size_t offset = 0;
  while (offset < text.size()) {
    const Sequence s = sequence_at(text, offset);
    if (!s.is_well_formed) return static_cast<Index>(offset);
    offset += static_cast<std::size_t>(s.bytes);
  }
  return -1;
}

std::string replace_ill_formed(std::string_view bytes) {
  if (simdjson::validate_utf8(bytes)) return std::string(bytes);
  std::string out;
  out.reserve(bytes.size() + 16);
  std::size_t offset = 0;
  while (offset < bytes.size()) {
    const Sequence s = sequence_at(bytes, offset);
    const auto length = static_cast<std::size_t>(s.bytes);
    out += s.is_well_formed ? bytes.substr(offset, length) : std::string_view("\xEF\xBF\xBD");
    offset += length;
  }
  return out;
}

CodePoint code_point_at(std::string_view text, Index offset) {
  const auto* p = reinterpret_cast<const unsigned char*>(text.data()) + offset;
  if (p[0] < 0x80) return {p[0], 1};
  if (p[0] < 0xE0) return {static_cast<char32_t>(((p[0] & 0x1FU) << 6) | (p[1] & 0x3FU)), 2};
  if (p[0] < 0xF0) return {static_cast<char32_t>(((p[0] & 0x0FU) << 12) | ((p[1] & 0x3FU) << 6) | (p[2] & 0x3FU)), 3};
  return {static_cast<char32_t>(((p[0] & 0x07U) << 18) | ((p[1] & 0x3FU) << 12) | ((p[2] & 0x3FU) << 6) | (p[3] & 0x3FU)), 4};
}

CodePoint code_point_before(std::string_view text, Index offset) {
  Index begin = offset - 1;
  while (begin > 0 && (static_cast<unsigned char>(text[static_cast<std::size_t>(begin)]) & 0xC0U) == 0x80U) --begin;
  return code_point_at(text, begin);
}

void append_code_point(char32_t value, std::string& out) {
  const auto v = static_cast<std::uint32_t>(value);
  if (v < 0x80) {
    out += static_cast<char>(v);
  } else if (v < 0x800) {
    out += static_cast<char>(0xC0U | (v >> 6));
    out += static_cast<char>(0x80U | (v & 0x3FU));
  } else if (v < 0x10000) {
    out += static_cast<char>(0xE0U | (v >> 12));
    out += static_cast<char>(0x80U | ((v >> 6) & 0x3FU));
    out += static_cast<char>(0x80U | (v & 0x3FU));
  } else {
    out += static_cast<char>(0xF0U | (v >> 18));
    out += static_cast<char>(0x80U | ((v >> 12) & 0x3FU));
    out += static_cast<char>(0x80U | ((v >> 6) & 0x3FU));
    out += static_cast<char>(0x80U | (v & 0x3FU));
  }
}

}  // namespace optimus
