#pragma once
// Regular expressions of tokenizer files: written for Oniguruma, run by PCRE2.

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace optimus {

/// `pattern` (Oniguruma, Ruby syntax, Unicode) in the words of PCRE2, with the same meaning.
///
/// The two disagree on \s (PCRE2 counts U+180E), \w (connectors, marks), \h, ^ and $; those are spelled out. What has no
/// equal here (\b, nested classes, &&, flags in the middle) is refused.
/// Errors: DataError with the part that is not supported.
[[nodiscard]] std::string translate_pattern(std::string_view pattern);
/// `text` as a pattern that matches just it.
[[nodiscard]] std::string escape_pattern(std::string_view text);

/// A compiled pattern. Immutable; matching needs a MatchState per thread.
class Pattern {
 public:
  /// What one thread needs while matching.
  class State {
   public:
    State();
    ~State();
    State(State&&) noexcept;

   private:
    friend class Pattern;
    struct Impl;
    std::unique_ptr<Impl> impl_;
  };
  struct Match {
    std::size_t begin = 0, end = 0;
  };

  /// `pattern` is in PCRE2's syntax.  Errors: DataError with PCRE2's words and the place.
  explicit Pattern(const std::string& pattern);
  ~Pattern();
  Pattern(Pattern&&) noexcept;

  /// The leftmost match at or after `start`; false if there is none. `text` is well-formed UTF-8.
  [[nodiscard]] bool find(std::string_view text, std::size_t start, State& state, Match& match) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace optimus
