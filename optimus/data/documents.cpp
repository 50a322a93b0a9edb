#include "optimus/data/documents.hpp"

#include <algorithm>
#include <string_view>

namespace optimus {
namespace {

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

/// Each line that is not blank.
void cut_lines(std::string_view text, Index& line, std::vector<DocumentBatch::Piece>& pieces) {
  for (std::size_t begin = 0; begin < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (!is_blank(text.substr(begin, end - begin))) pieces.push_back({begin, end, line});
    begin = end + 1;
  }
}

/// Each run of lines that are not blank, without its last line break.
void cut_paragraphs(std::string_view text, Index& line, std::vector<DocumentBatch::Piece>& pieces) {
  bool in_document = false;
  for (std::size_t begin = 0; begin < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    if (is_blank(text.substr(begin, end - begin))) {
      in_document = false;
    } else {
      if (!in_document) pieces.push_back({begin, end, line});
      const bool has_return = end > begin && end < text.size() && text[end - 1] == '\r';
      pieces.back().end = has_return ? end - 1 : end;
      in_document = true;
    }
    begin = end + 1;
  }
}

/// One past the last place where a document surely ends, or npos.
std::size_t last_cut(std::string_view text, bool at_blank_lines) {
  std::size_t end = text.rfind('\n');
  while (at_blank_lines && end != std::string_view::npos) {
    const std::size_t before = end == 0 ? std::string_view::npos : text.rfind('\n', end - 1);
    const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
    if (before != std::string_view::npos && is_blank(text.substr(begin, end - begin))) break;
    end = before;
  }
  return end == std::string_view::npos ? end : end + 1;
}

}  // namespace

struct DocumentReader::Impl {
  Impl(const InputFile& input, DocumentSeparator document_separator)
      : kind(input.kind),
        separator(document_separator),
        compression(input.compression),
        bytes(input.bytes),
        stream(open_byte_stream(input.path, input.compression)) {}

  [[nodiscard]] bool is_one_document() const { return kind == InputKind::kText && separator == DocumentSeparator::kNone; }
  /// Appends to `rest` until it holds `size` bytes or the file ends.
  void fill(std::size_t size) {
    const std::size_t held = rest.size();
    if (held >= size || at_end) return;
    rest.resize(size);
    const std::size_t count = stream->read(std::span(rest).subspan(held));
    rest.resize(held + count);
    at_end = held + count < size;
  }
  bool next_whole(DocumentBatch& batch);
  bool next_cut(DocumentBatch& batch);

  InputKind kind;
  DocumentSeparator separator;
  Compression compression;
  Index bytes;
  std::unique_ptr<ByteStream> stream;
  std::string rest;  // read, not yet handed out
  Index line = 1;    // of the first byte of rest
  bool at_end = false, is_done = false;
};

bool DocumentReader::Impl::next_whole(DocumentBatch& batch) {
  is_done = true;
  batch.is_whole_file = compression == Compression::kNone;
  if (batch.is_whole_file) return true;
  while (!at_end) fill(std::max(rest.size() * 2, kBatchBytes));
  batch.text = std::move(rest);
  batch.pieces.push_back({0, batch.text.size(), 1});
  return true;
}

bool DocumentReader::Impl::next_cut(DocumentBatch& batch) {
  const bool is_json = kind == InputKind::kJsonLines;
  std::size_t cut = std::string_view::npos;
  for (std::size_t size = kBatchBytes; cut == std::string_view::npos; size *= 2) {
    fill(size);
    cut = at_end ? rest.size() : last_cut(rest, !is_json);
  }
  if (rest.empty()) return false;
  const std::string_view text = std::string_view(rest).substr(0, cut);
  if (is_json) {
    cut_lines(text, line, batch.pieces);
  } else {
    cut_paragraphs(text, line, batch.pieces);
  }
  std::string remainder = rest.substr(cut);
  rest.resize(cut);
  batch.text = std::move(rest);
  rest = std::move(remainder);
  return true;
}

DocumentReader::DocumentReader(const InputFile& file, DocumentSeparator separator) : impl_(std::make_unique<Impl>(file, separator)) {}
DocumentReader::~DocumentReader() = default;
DocumentReader::DocumentReader(DocumentReader&&) noexcept = default;
DocumentReader& DocumentReader::operator=(DocumentReader&&) noexcept = default;

bool DocumentReader::next(DocumentBatch& batch) {
  batch = DocumentBatch();
  if (impl_->is_done) return false;
  const bool found = impl_->is_one_document() ? impl_->next_whole(batch) : impl_->next_cut(batch);
  batch.text.append(kPadding, '\0');
  return found;
}

Index DocumentReader::position() const { return impl_->is_done && impl_->compression == Compression::kNone ? impl_->bytes : impl_->stream->position(); }

}  // namespace optimus
