#pragma once
// The printable characters that stand for bytes in the vocabularies of byte-level BPE tokenizers.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace optimus {

/// 188 bytes (the printable ones of Latin-1) stand for themselves; the other 68, in order, are U+0100 … U+0143.
/// Source: GPT-2's encoder, Radford et al. 2019.
class ByteAlphabet {
 public:
  ByteAlphabet();
  /// UTF-8 of the character that stands for `byte`.
  [[nodiscard]] const std::string& character(std::uint8_t byte) const { return characters_[byte]; }
  /// The bytes that `token` stands for; nothing if one of its characters stands for no byte.
  [[nodiscard]] std::optional<std::string> bytes_of(std::string_view token) const;

 private:
  static constexpr std::size_t kEnd = 0x144;  ///< one past the last stand-in
  std::array<std::string, 256> characters_;
  std::array<int, kEnd> bytes_{};  ///< by code point; -1: none
};

}  // namespace optimus
