#include "optimus/data/added_tokens.hpp"

#include <unicode/uchar.h>

#include <algorithm>

#include "optimus/data/utf8.hpp"

namespace optimus {
namespace {

std::size_t first_two(unsigned char a, unsigned char b) { return (static_cast<std::size_t>(a) << 8) | b; }

/// What \w means to the library whose ids are to be met: letters, marks, decimal digits, connectors, joiners.
bool is_word_character(char32_t value) {
  const auto c = static_cast<UChar32>(value);
  const std::uint32_t mask = U_GET_GC_MASK(c);
  return (mask & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0 || u_hasBinaryProperty(c, UCHAR_ALPHABETIC) || u_hasBinaryProperty(c, UCHAR_JOIN_CONTROL);
}
bool is_space(char32_t value) { return u_hasBinaryProperty(static_cast<UChar32>(value), UCHAR_WHITE_SPACE); }

bool touches_word(std::string_view text, Index begin, Index end) {
  if (begin > 0 && is_word_character(code_point_before(text, begin).value)) return true;
  return end < static_cast<Index>(text.size()) && is_word_character(code_point_at(text, end).value);
}

Index skip_space_left(std::string_view text, Index at, Index limit) {
  while (at > limit) {
    const CodePoint c = code_point_before(text, at);
    if (!is_space(c.value)) break;
    at -= c.bytes;
  }
  return std::max(at, limit);
}

Index skip_space_right(std::string_view text, Index at) {
  while (at < static_cast<Index>(text.size())) {
    const CodePoint c = code_point_at(text, at);
    if (!is_space(c.value)) break;
    at += c.bytes;
  }
  return at;
}

}  // namespace

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const AddedToken& t) { return t.content.empty(); });
  std::stable_sort(tokens_.begin(), tokens_.end(), [](const AddedToken& a, const AddedToken& b) { return a.content.size() > b.content.size(); });
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const std::string& content = tokens_[i].content;
    const auto first = static_cast<unsigned char>(content[0]);
    by_byte_[first].push_back(static_cast<std::int32_t>(i));
    for (unsigned second = 0; second < 256; ++second) {
      if (content.size() == 1 || static_cast<unsigned char>(content[1]) == second) begins_.set(first_two(first, static_cast<unsigned char>(second)));
    }
  }
}

const AddedToken* AddedTokenMatcher::longest_at(std::string_view text, Index at) const {
  const std::string_view rest = text.substr(static_cast<std::size_t>(at));
  const auto second = static_cast<unsigned char>(rest.size() > 1 ? rest[1] : '\0');
  const auto first = static_cast<unsigned char>(rest[0]);
  if (!begins_.test(first_two(first, second))) return nullptr;
  for (const std::int32_t i : by_byte_[first]) {
    if (rest.starts_with(tokens_[static_cast<std::size_t>(i)].content)) return &tokens_[static_cast<std::size_t>(i)];
  }
  return nullptr;
}

AddedTokenMatcher::Match AddedTokenMatcher::next(std::string_view text, Index from, Index done) const {
  if (tokens_.empty()) return {};
  const auto size = static_cast<Index>(text.size());
  while (from < size) {
    const AddedToken* token = longest_at(text, from);
    if (token == nullptr) {
      ++from;
      continue;
    }
    const Index end = from + static_cast<Index>(token->content.size());
    if (token->is_single_word && touches_word(text, from, end)) {
      from = end;
      continue;
    }
    Match match{token, from, end, end};
    if (token->strips_left) match.begin = skip_space_left(text, from, done);
    if (token->strips_right) match.end = skip_space_right(text, end);
    return match;
  }
  return {};
}

}  // namespace optimus
