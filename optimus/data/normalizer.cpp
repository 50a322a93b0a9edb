#include "optimus/data/normalizer.hpp"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>

#include <cstdint>

#include "optimus/base/check.hpp"
#include "optimus/base/index.hpp"
#include "optimus/data/utf8.hpp"

namespace optimus {
namespace {

const icu::Normalizer2& instance(NormalizationForm form, UErrorCode& status) {
  switch (form) {
    case NormalizationForm::kNfc: return *icu::Normalizer2::getNFCInstance(status);
    case NormalizationForm::kNfd: return *icu::Normalizer2::getNFDInstance(status);
    case NormalizationForm::kNfkc: return *icu::Normalizer2::getNFKCInstance(status);
    case NormalizationForm::kNfkd: break;
  }
  return *icu::Normalizer2::getNFKDInstance(status);
}

/// ICU counts in 32 bits, so longer texts are cut before a character that no earlier one combines with.
std::size_t end_of_piece(const icu::Normalizer2& normalizer, std::string_view text) {
  constexpr std::size_t kMaxBytes = std::size_t{1} << 26;
  if (text.size() <= kMaxBytes) return text.size();
  for (std::size_t end = kMaxBytes; end > 0; --end) {
    if ((static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) continue;
    if (normalizer.hasBoundaryBefore(static_cast<UChar32>(code_point_at(text, static_cast<Index>(end)).value))) return end;
  }
  throw DataError("[tokenizer] 64 MiB of combining characters in a row cannot be normalised");
}

bool is_ascii(std::string_view text) {
  constexpr std::size_t kBlock = 4096;  // the inner loop has no exit, so the compiler vectorises it
  for (std::size_t begin = 0; begin < text.size(); begin += kBlock) {
    unsigned bits = 0;
    for (const char c : text.substr(begin, kBlock)) bits |= static_cast<unsigned char>(c);
    if (bits >= 0x80) return false;
  }
  return true;
}

/// True if `text` was changed; the result is then in `out`.
bool normalize(NormalizationForm form, std::string_view text, std::string& out) {
  if (is_ascii(text)) return false;  // ASCII is in every form
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2& normalizer = instance(form, status);
  OPTIMUS_CHECK(U_SUCCESS(status), "ICU has no tables for this normalisation form");
  out.clear();
  bool changed = false;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = end_of_piece(normalizer, rest);
    const icu::StringPiece piece(rest.data(), narrow<std::int32_t>(end));
    if (normalizer.isNormalizedUTF8(piece, status)) {
      if (end == text.size()) return false;
      out.append(rest.substr(0, end));
    } else {
      icu::StringByteSink<std::string> sink(&out);
      normalizer.normalizeUTF8(0, piece, sink, nullptr, status);
      changed = true;
    }
    OPTIMUS_CHECK(U_SUCCESS(status), "ICU could not normalise well-formed text");
    rest.remove_prefix(end);
  }
  return changed;
}

}  // namespace

std::string_view Normalizer::apply(std::string_view text, std::string& buffer) const {
  std::string next;
  for (const NormalizationForm form : forms_) {
    if (!normalize(form, text, next)) continue;
    buffer.swap(next);
    text = buffer;
  }
  return text;
}

}  // namespace optimus
