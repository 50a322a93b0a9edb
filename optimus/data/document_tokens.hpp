#pragma once
// One batch of documents into ids. Private to tokenize_corpus.

#include <cstddef>
#include <functional>
#include <string_view>
#include <vector>

#include "optimus/data/tokenize_corpus.hpp"

namespace optimus {

/// Ids as bytes of the token type, and what was counted with them.
struct TokenChunk {
  std::vector<std::byte> ids;
  FileTokens counts;
};

/// Turns documents into chunks of about 1 MiB. One object a batch.
class DocumentTokens {
 public:
  using Emit = std::function<void(TokenChunk)>;
  DocumentTokens(const InputFile& file, const TokenizeOptions& options, Emit emit) : file_(file), options_(options), emit_(std::move(emit)) {}

  void add_batch(const DocumentBatch& batch);
  /// Ids [begin, end) of an array. `keep` is false for arrays that stay where they are: they are only checked and counted.
  void add_array(const TokenArray& array, Index begin, Index end, bool keep);
  /// Hands out what is left.
  void finish();

 private:
  void add_text(std::string_view text, Index line);
  void add_json_lines(const DocumentBatch& batch);
  void add_ids(std::span<const std::int32_t> ids);
  void check_text(std::string_view text, Index line) const;
  [[noreturn]] void fail(Index line, std::string_view what) const;

  const InputFile& file_;
  const TokenizeOptions& options_;
  Emit emit_;
  TokenChunk chunk_;
};

}  // namespace optimus
