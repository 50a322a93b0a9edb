#pragma once
// Cuts text into the words that byte-pair merges stay inside of.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "optimus/data/pattern.hpp"

namespace optimus {

/// What becomes of the matches ("delimiters") of a pattern and of the text between them.
enum class SplitBehavior : std::uint8_t { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

/// One step of splitting: each piece so far is cut further.
struct SplitStage {
  std::string pattern;  ///< in PCRE2's syntax; empty: only add_prefix_space
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;            ///< exchange matches and the text between them
  bool add_prefix_space = false;  ///< first put a space before a piece that does not begin with one
};

/// The stages of a tokenizer, compiled. Immutable; each thread brings its own state.
class Splitter {
 public:
  struct State {
    Pattern::State match;
    std::vector<std::string> prefixed;  ///< by stage: the piece with its space
  };

  /// Errors: DataError for a pattern that cannot be compiled.
  explicit Splitter(const std::vector<SplitStage>& stages);

  /// Calls `word(std::string_view)` for the words of `text` from left to right. Never with an empty one.
  template <class Word>
  void split(std::string_view text, State& state, Word&& word) const {
    if (state.prefixed.size() < stages_.size()) state.prefixed.resize(stages_.size());
    run_stage(0, text, state, word);
  }

 private:
  struct Stage {
    std::vector<Pattern> pattern;
    SplitStage options;
  };
  struct Part {
    std::size_t begin, end;
    bool is_match;
  };

  template <class Word>
  void run_stage(std::size_t index, std::string_view text, State& state, Word& word) const {
    if (text.empty()) return;
    if (index == stages_.size()) return word(text);
    const Stage& stage = stages_[index];
    if (stage.options.add_prefix_space && text.front() != ' ') {
      std::string& buffer = state.prefixed[index];
      buffer.assign(1, ' ').append(text);
      text = buffer;
    }
    if (stage.pattern.empty()) return run_stage(index + 1, text, state, word);
    const SplitBehavior behavior = stage.options.behavior;
    if (behavior == SplitBehavior::kIsolated || behavior == SplitBehavior::kRemoved) {
      const bool drops_matches = behavior == SplitBehavior::kRemoved;
      for_each_part(stage, text, state, [&](Part part) {
        if (!(drops_matches && part.is_match)) run_stage(index + 1, text.substr(part.begin, part.end - part.begin), state, word);
      });
      return;
    }
    for (const Part& part : merged_parts(stage, text, state)) run_stage(index + 1, text.substr(part.begin, part.end - part.begin), state, word);
  }

  /// Matches and the text between them, in order; `is_match` already exchanged where asked.
  template <class Visit>
  static void for_each_part(const Stage& stage, std::string_view text, State& state, Visit&& visit) {
    const bool invert = stage.options.invert;
    std::size_t done = 0, start = 0;
    Pattern::Match match;
    while (start <= text.size() && stage.pattern.front().find(text, start, state.match, match)) {
      if (match.begin > done) visit(Part{done, match.begin, invert});
      visit(Part{match.begin, match.end, !invert});
      done = match.end;
      start = match.end > match.begin ? match.end : next_character(text, match.end);
    }
    if (done < text.size()) visit(Part{done, text.size(), invert});
  }

  [[nodiscard]] static std::size_t next_character(std::string_view text, std::size_t offset);
  [[nodiscard]] std::vector<Part> merged_parts(const Stage& stage, std::string_view text, State& state) const;

  std::vector<Stage> stages_;
};

}  // namespace optimus
