#include <algorithm>

#include "optimus/base/hash.hpp"
#include "optimus/data/bpe_tokenizer.hpp"
#include "optimus/data/utf8.hpp"

namespace optimus {
namespace {

constexpr std::int32_t kEndOfDocument = 256;
constexpr std::string_view kEndName = "<|endoftext|>";

class BytesTokenizer final : public Tokenizer {
 public:
  void encode_pieces(std::string_view text, const IdSink& sink) const override {
    std::vector<std::int32_t> ids;
    constexpr std::size_t kPiece = 1 << 16;
    for (; !text.empty(); text.remove_prefix(std::min(text.size(), kPiece))) {
      const std::string_view piece = text.substr(0, kPiece);
      ids.resize(piece.size());
      std::transform(piece.begin(), piece.end(), ids.begin(), [](char c) { return static_cast<std::int32_t>(static_cast<unsigned char>(c)); });
      sink(ids);
    }
  }

  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids, bool skip_special) const override {
    std::string bytes;
    for (const std::int32_t id : ids) {
      if (id >= 0 && id < kEndOfDocument) bytes += static_cast<char>(id);
      if (id == kEndOfDocument && !skip_special) bytes += kEndName;
    }
    return replace_ill_formed(bytes);
  }

  [[nodiscard]] Index vocab_size() const override { return 257; }
  [[nodiscard]] std::optional<std::int32_t> id_of(std::string_view token) const override {
    if (token == kEndName) return kEndOfDocument;
    if (token.size() == 1) return static_cast<std::int32_t>(static_cast<unsigned char>(token[0]));
    return std::nullopt;
  }
  [[nodiscard]] std::optional<std::int32_t> end_of_document() const override { return kEndOfDocument; }
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] const std::string& checksum() const override { return checksum_; }

 private:
  std::string name_ = "bytes";
  std::string checksum_ = hex64(xxh64(std::string_view("bytes")));
};

}  // namespace

std::unique_ptr<Tokenizer> make_bytes_tokenizer() { return std::make_unique<BytesTokenizer>(); }

void Tokenizer::encode(std::string_view text, std::vector<std::int32_t>& ids) const {
  encode_pieces(text, [&](std::span<const std::int32_t> piece) { ids.insert(ids.end(), piece.begin(), piece.end()); });
}

std::unique_ptr<Tokenizer> make_tokenizer(const std::string& spec) { return spec == "bytes" ? make_bytes_tokenizer() : make_bpe_tokenizer(spec); }

}  // namespace optimus
