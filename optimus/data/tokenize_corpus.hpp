#pragma once
// First step of `prepare`: every document of the corpus becomes ids.

#include <filesystem>
#include <string>
#include <vector>

#include "optimus/data/corpus_parts.hpp"
#include "optimus/data/documents.hpp"
#include "optimus/data/tokenizer.hpp"

namespace optimus {

struct TokenizeOptions {
  const Tokenizer* tokenizer = nullptr;  ///< null: given ids only
  Index end_of_document = -1;            ///< put after each text
  Index vocab_size = 0;                  ///< given ids are below it; 0: any
  TokenType token_type = TokenType::kU16;
  TokenType raw_type = TokenType::kU16;  ///< of .bin files
  std::string text_field = "text";
  DocumentSeparator separator = DocumentSeparator::kNone;
  Index num_workers = 1;
  bool is_silent = false;  ///< no progress line
};

/// Makes ids and records of the parts `todo` (indices, ascending) in the folder `work`.
///
/// The bytes do not depend on the number of workers. Texts that give no id are left out and counted.
/// Memory:   2 * workers + 2 batches of documents (1 MiB each, or the longest document) and about 4 MiB of ids for each; plain .txt files and arrays are mapped.
/// Errors:   DataError naming file and line for text that is not UTF-8, broken JSON, a missing field, an id outside the vocabulary, damaged
///           compressed data; the first in corpus order. FileError for a full disk. Parts that were finished before stay.
void tokenize_corpus(const std::vector<InputFile>& files, const std::vector<CorpusPart>& parts, const std::vector<Index>& todo,
                     const std::filesystem::path& work, const TokenizeOptions& options);

}  // namespace optimus
