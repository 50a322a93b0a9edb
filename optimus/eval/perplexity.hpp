#pragma once
// How well a model predicts whole documents.

#include <span>
#include <string>
#include <vector>

#include "optimus/eval/scorer.hpp"

namespace optimus {

struct TextScore {
  Index documents = 0, bytes = 0, tokens = 0;
  double logprob = 0;
  [[nodiscard]] double bits_per_byte() const;  ///< -logprob / ln 2 / bytes
  [[nodiscard]] double perplexity() const;     ///< exp(-logprob / tokens)
};

/// Windows that score every id of a document exactly once, each with at least half a window of context where the document has that much.
///
/// A document starts after the end-of-document id if the tokenizer has one; otherwise its first id is context only.
[[nodiscard]] std::vector<EncodedRequest> sliding_windows(std::span<const std::int32_t> ids, Index max_positions);

/// Scores each text as one document.
/// Collective: over `world`.  Errors: DataError for no text at all.
[[nodiscard]] TextScore score_texts(Communicator& world, Backend& backend, const LoadedModel& model, const Tokenizer& tokenizer,
                                    std::span<const std::string> texts);

}  // namespace optimus
