#pragma once
// Text to token ids and back.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "optimus/base/index.hpp"

namespace optimus {

/// A tokenizer. Immutable after construction; encode and decode may be called from many threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  /// Appends the ids of `text` (UTF-8). No special tokens are added; those that stand in the text are recognised.
  /// Errors: DataError for ill-formed UTF-8 (not of `bytes`, which takes any bytes).
  void encode(std::string_view text, std::vector<std::int32_t>& ids) const;
  /// The same ids, handed to `sink` in pieces of some ten thousand: for texts whose ids would fill the memory.
  using IdSink = std::function<void(std::span<const std::int32_t>)>;
  virtual void encode_pieces(std::string_view text, const IdSink& sink) const = 0;
  /// Text of `ids`; ids outside the vocabulary are left out, ill-formed bytes become U+FFFD. `skip_special` leaves special tokens out.
  [[nodiscard]] virtual std::string decode(std::span<const std::int32_t> ids, bool skip_special) const = 0;
  [[nodiscard]] virtual Index vocab_size() const = 0;
  [[nodiscard]] virtual std::optional<std::int32_t> id_of(std::string_view token) const = 0;
  /// 256 of `bytes`; that of <|endoftext|> of a file, if it has one.
  [[nodiscard]] virtual std::optional<std::int32_t> end_of_document() const = 0;
  /// "bytes" or the file's name.
  [[nodiscard]] virtual const std::string& name() const = 0;
  /// 16 hexadecimal digits over everything that decides ids.
  [[nodiscard]] virtual const std::string& checksum() const = 0;
};

/// `spec` is "bytes" or the path of a Hugging Face tokenizer.json (byte-level BPE).
/// Errors: DataError naming the file and what in it is damaged or not supported.
[[nodiscard]] std::unique_ptr<Tokenizer> make_tokenizer(const std::string& spec);

}  // namespace optimus
