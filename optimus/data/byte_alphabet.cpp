#include "optimus/data/byte_alphabet.hpp"

#include "optimus/data/utf8.hpp"

namespace optimus {

ByteAlphabet::ByteAlphabet() {
  bytes_.fill(-1);
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const bool is_printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    const char32_t value = is_printable ? static_cast<char32_t>(byte) : next++;
    append_code_point(value, characters_[static_cast<std::size_t>(byte)]);
    bytes_[value] = byte;
  }
}

std::optional<std::string> ByteAlphabet::bytes_of(std::string_view token) const {
  std::string bytes;
  for (Index offset = 0; offset < static_cast<Index>(token.size());) {
    const CodePoint c = code_point_at(token, offset);
    if (c.value >= kEnd || bytes_[c.value] < 0) return std::nullopt;
    bytes += static_cast<char>(bytes_[c.value]);
    offset += c.bytes;
  }
  return bytes;
}

}  // namespace optimus
