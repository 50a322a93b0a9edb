#pragma once
// Unicode normalisation forms, applied before a text is split into words.

#include <string>
#include <string_view>
#include <vector>

namespace optimus {

enum class NormalizationForm { kNfc, kNfd, kNfkc, kNfkd };

/// Applies normalisation forms one after another. Immutable; may be used from many threads.
class Normalizer {
 public:
  Normalizer() = default;
  explicit Normalizer(std::vector<NormalizationForm> forms) : forms_(std::move(forms)) {}
  /// `text` in normalised form. Text that is so already is returned as it is, without a copy; else the result lies in `buffer`.
  /// `text` is well-formed UTF-8 and may not lie in `buffer`.
  [[nodiscard]] std::string_view apply(std::string_view text, std::string& buffer) const;

 private:
  std::vector<NormalizationForm> forms_;
};

}  // namespace optimus
