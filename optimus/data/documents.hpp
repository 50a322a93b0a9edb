#pragma once
// A corpus file cut into batches of whole documents, small enough to share out to threads.

#include <memory>
#include <string>
#include <vector>

#include "optimus/data/input_files.hpp"

namespace optimus {

/// Where a document of a .txt file ends.
enum class DocumentSeparator { kNone, kBlankLine };

/// Some documents of one file.
///
/// JSON lines: whole lines, followed by room that a JSON parser may read. Text: documents one after another. A plain .txt file that is one
/// document is not read at all: `is_whole_file` says to map it, so that it need not fit the memory.
struct DocumentBatch {
  struct Piece {
    std::size_t begin = 0, end = 0;
    Index line = 1;
  };  ///< bytes of `text`, and the line of the file it begins on
  std::string text;
  std::vector<Piece> pieces;
  bool is_whole_file = false;
};

/// Cuts one .txt or .jsonl file into batches.
///
/// Blank lines (nothing but spaces, tabs and carriage returns) separate documents; the line break before a separator belongs to it, as does
/// the one at the end of the file, so that a document has the same bytes wherever it stands. In JSON lines they are passed over.
/// Memory: one batch, about 1 MiB or the longest document (the whole text of a compressed file that is one document).
class DocumentReader {
 public:
  static constexpr std::size_t kBatchBytes = 1 << 20;
  static constexpr std::size_t kPadding = 64;  ///< bytes after the text of a batch

  /// Errors: DataError if the file cannot be opened.
  DocumentReader(const InputFile& file, DocumentSeparator separator);
  ~DocumentReader();
  DocumentReader(DocumentReader&&) noexcept;
  DocumentReader& operator=(DocumentReader&&) noexcept;
  /// Fills the next batch; false at the end of the file.  Errors: DataError for damaged compressed data.
  [[nodiscard]] bool next(DocumentBatch& batch);
  /// Bytes of the file consumed so far.
  [[nodiscard]] Index position() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace optimus
