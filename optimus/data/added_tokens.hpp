#pragma once
// Tokens that are found in a text as they stand, before it is split into words.

#include <array>
#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "optimus/base/index.hpp"

namespace optimus {

/// An entry of `added_tokens`.
struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool is_single_word = false;  ///< not where it touches a letter, digit or underscore
  bool strips_left = false;     ///< takes the white space before it along
  bool strips_right = false;    ///< … and after it
  bool is_normalized = false;   ///< looked for after normalisation, else before
  bool is_special = false;      ///< left out by decode on request
};

/// Finds added tokens: leftmost first, the longest where several begin. Immutable.
class AddedTokenMatcher {
 public:
  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);
  [[nodiscard]] bool empty() const { return tokens_.empty(); }

  /// Calls `text_piece(std::string_view)` for what lies between tokens (never empty) and `token(id)` for tokens, from left to right.
  template <class TextPiece, class Token>
  void split(std::string_view text, TextPiece&& text_piece, Token&& token) const {
    Index done = 0;
    for (Match m = next(text, 0, 0); m.token != nullptr; m = next(text, m.resume, done)) {
      if (m.begin > done) text_piece(text.substr(static_cast<std::size_t>(done), static_cast<std::size_t>(m.begin - done)));
      token(m.token->id);
      done = m.end;
    }
    if (done < static_cast<Index>(text.size())) text_piece(text.substr(static_cast<std::size_t>(done)));
  }

 private:
  /// Characters [begin, end) belong to the token, stripped space included; the search goes on at `resume`, where the token's own text ends.
  struct Match {
    const AddedToken* token = nullptr;
    Index begin = 0, end = 0, resume = 0;
  };

  [[nodiscard]] Match next(std::string_view text, Index from, Index done) const;
  [[nodiscard]] const AddedToken* longest_at(std::string_view text, Index at) const;

  std::vector<AddedToken> tokens_;                      // longest first
  std::array<std::vector<std::int32_t>, 256> by_byte_;  // places in tokens_ by first byte, longest first
  std::bitset<65536> begins_;                           // first two bytes of any token
};

}  // namespace optimus
