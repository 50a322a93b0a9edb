#include "optimus/data/splitter.hpp"

#include <algorithm>

namespace optimus {

Splitter::Splitter(const std::vector<SplitStage>& stages) {
  for (const SplitStage& options : stages) {
    Stage& stage = stages_.emplace_back();
    stage.options = options;
    if (!options.pattern.empty()) stage.pattern.emplace_back(options.pattern);
  }
}

std::size_t Splitter::next_character(std::string_view text, std::size_t offset) {
  do {
    ++offset;
  } while (offset < text.size() && (static_cast<unsigned char>(text[offset]) & 0xC0U) == 0x80U);
  return offset;
}

std::vector<Splitter::Part> Splitter::merged_parts(const Stage& stage, std::string_view text, State& state) const {
  std::vector<Part> parts;
  for_each_part(stage, text, state, [&](Part part) { parts.push_back(part); });
  const SplitBehavior behavior = stage.options.behavior;
  const bool from_the_end = behavior == SplitBehavior::kMergedWithNext;
  if (from_the_end) std::reverse(parts.begin(), parts.end());

  std::vector<Part> merged;
  bool previous_is_match = false;
  for (const Part& part : parts) {
    // Contiguous: like joins like. Merged: a match joins what stands before it (seen from the end: after it), but no other match.
    const bool joins = behavior == SplitBehavior::kContiguous ? part.is_match == previous_is_match : part.is_match && !previous_is_match;
    previous_is_match = part.is_match;
    if (!joins || merged.empty()) {
      merged.push_back(part);
    } else if (from_the_end) {
      merged.back().begin = part.begin;
    } else {
      merged.back().end = part.end;
    }
  }
  if (from_the_end) std::reverse(merged.begin(), merged.end());
  return merged;
}

}  // namespace optimus
