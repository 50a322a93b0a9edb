#pragma once
// The samples of a corpus in corpus order, cut out of the ids of its files.

#include <filesystem>
#include <span>
#include <vector>

#include "optimus/data/corpus_parts.hpp"

namespace optimus {

/// A file with T ids gives floor((T - 1) / S) samples of S + 1 ids at stride S, files in order; what is left of it is dropped.
///
/// Files of ids are mapped, so the memory is the system's to take back; apart from that 40 bytes an input file.
class CorpusSamples {
 public:
  /// `tokens` by input file.
  CorpusSamples(const std::vector<InputFile>& files, const std::vector<CorpusPart>& parts, const std::vector<FileTokens>& tokens,
                const std::filesystem::path& work, TokenType type, TokenType raw_type, Index sequence_length);
  [[nodiscard]] Index size() const { return first_sample_.back(); }
  [[nodiscard]] Index num_dropped_tokens() const { return num_dropped_; }
  /// The S + 1 ids of sample `index`. May be used from many threads.
  void read(Index index, std::span<std::int32_t> ids) const;

 private:
  struct Place {
    Index array = 0, begin = 0;
  };  ///< of a file's first id
  Index sequence_length_;
  Index num_dropped_ = 0;
  std::vector<TokenArray> arrays_;
  std::vector<Place> places_;        // by file
  std::vector<Index> first_sample_;  // by file, and one past the last
};

}  // namespace optimus
