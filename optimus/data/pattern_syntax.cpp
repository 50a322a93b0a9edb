#include <algorithm>
#include <utility>

#include "optimus/base/error.hpp"
#include "optimus/data/pattern.hpp"

namespace optimus {
namespace {

// White space as Oniguruma has it: the property White_Space.
constexpr std::string_view kSpace = R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kNotSpace =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";
constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
constexpr std::string_view kHexDigit = "0-9a-fA-F";

[[noreturn]] void refuse(std::string_view what, std::size_t offset) {
  throw DataError("the regular expression has " + std::string(what) + " at character " + std::to_string(offset) + ", which is not supported");
}

/// Walks over the pattern once and writes its translation.
class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  std::string run() {
    while (at_ < in_.size()) {
      const char c = in_[at_];
      if (c == '\\') {
        escape(false);
      } else if (c == '[') {
        character_class();
      } else if (c == '(' && peek(1) == '?') {
        group();
      } else if (c == '{' && peek(1) == ',') {
        out_ += "{0";  // {,n} counts from nought in Oniguruma and is plain text in PCRE2
        ++at_;
      } else if (c == '}' && peek(1) == '+') {
        refuse("{n,m}+", at_);  // possessive in one, a nested repetition in the other
      } else {
        out_ += c;
        ++at_;
      }
    }
    return std::move(out_);
  }

 private:
  [[nodiscard]] char peek(std::size_t ahead) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0'; }

  void put_set(std::string_view set, bool in_class, bool negated) {
    if (in_class) {
      out_ += set;
    } else {
      out_ += negated ? "[^" : "[";
      out_ += set;
      out_ += ']';
    }
    at_ += 2;
  }

  void escape(bool in_class) {
    const char c = peek(1);
    switch (c) {
      case '\0': refuse("a lone backslash", at_);
      case 's': return put_set(kSpace, in_class, false);
      case 'S': return put_set(in_class ? kNotSpace : kSpace, in_class, true);
      case 'w': return put_set(kWord, in_class, false);
      case 'h': return put_set(kHexDigit, in_class, false);
      case 'W':
      case 'H':
        if (in_class) refuse(std::string("\\") + c + " inside a class", at_);
        return put_set(c == 'W' ? kWord : kHexDigit, false, true);
      case 'u':
        out_ += "\\x{";
        out_ += in_.substr(at_ + 2, 4);
        out_ += '}';
        at_ += 6;
        return;
      case 'b':
      case 'B':
      case 'G':
      case 'K':
      case 'R':
      case 'X':
      case 'k':
      case 'g':
      case 'y':
      case 'Y':
      case 'N':
      case 'O':
      case 'C':
      case 'M':
      case 'c': refuse(std::string("\\") + c, at_);
      default:
        if (c >= '0' && c <= '9') refuse("a back reference or an octal escape", at_);
        const std::size_t end = peek(2) == '{' && (c == 'p' || c == 'P' || c == 'x') ? std::min(in_.find('}', at_), in_.size() - 1) + 1 : at_ + 2;
        out_ += in_.substr(at_, end - at_);
        at_ = end;
    }
  }

  void character_class() {
    const std::size_t begin = at_;
    out_ += in_[at_++];
    if (peek(0) == '^') out_ += in_[at_++];
    if (peek(0) == ']') refuse("a class that begins with ]", at_);
    while (at_ < in_.size() && in_[at_] != ']') {
      if (in_[at_] == '\\') {
        escape(true);
      } else if (in_[at_] == '[') {
        refuse("a class inside a class", at_);
      } else if (in_[at_] == '&' && peek(1) == '&') {
        refuse("an intersection of classes (&&)", at_);
      } else {
        out_ += in_[at_++];
      }
    }
    if (at_ >= in_.size()) refuse("a class without its ]", begin);
    out_ += in_[at_++];
  }

  void group() {
    const std::size_t begin = at_;
    std::size_t end = at_ + 2;
    while (end < in_.size() && (in_[end] == 'i' || in_[end] == '-')) ++end;
    const char last = end < in_.size() ? in_[end] : '\0';
    const bool has_flags = end > at_ + 2;
    const bool is_plain = !has_flags && (last == ':' || last == '=' || last == '!' || last == '>' || last == '<');
    // A bare (?i) reaches to the end of its group in both only where it stands first.
    const bool is_flags = has_flags && (last == ':' || (last == ')' && begin == 0));
    if (!is_plain && !is_flags) refuse("a group that begins with " + std::string(in_.substr(begin, 4)), begin);
    out_ += in_.substr(begin, end + 1 - begin);
    at_ = end + 1;
  }

  std::string_view in_;
  std::size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string translate_pattern(std::string_view pattern) { return Translator(pattern).run(); }

std::string escape_pattern(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\^$.[]|()?*+{}-#").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace optimus
