#include "optimus/data/bpe_tokenizer.hpp"

#include <mutex>
#include <unordered_map>

#include "optimus/base/error.hpp"
#include "optimus/data/byte_alphabet.hpp"
#include "optimus/data/tokenizer_file.hpp"
#include "optimus/data/utf8.hpp"
#include "optimus/data/word_cache.hpp"

namespace optimus {
namespace {

std::vector<AddedToken> raw_tokens(const TokenizerFile& file) {
  std::vector<AddedToken> tokens = file.added_tokens;
  std::erase_if(tokens, [](const AddedToken& t) { return t.is_normalized; });
  return tokens;
}

/// These are looked for in normalised text, so they are normalised themselves.
std::vector<AddedToken> normalized_tokens(const TokenizerFile& file, const Normalizer& normalizer) {
  std::vector<AddedToken> tokens = file.added_tokens;
  std::erase_if(tokens, [](const AddedToken& t) { return !t.is_normalized; });
  std::string buffer;
  for (AddedToken& token : tokens) token.content = std::string(normalizer.apply(std::string(token.content), buffer));
  return tokens;
}

class BpeTokenizer final : public Tokenizer {
 public:
  explicit BpeTokenizer(const TokenizerFile& file)
      : name_(file.name),
        checksum_(file.checksum),
        tokens_(file.tokens),
        normalizer_(file.normalization),
        raw_(raw_tokens(file)),
        normalized_(normalized_tokens(file, normalizer_)),
        splitter_(file.stages),
        merges_(file.merges, file.bytes),
        ignore_merges_(file.ignore_merges) {
    const ByteAlphabet alphabet;
    is_special_.resize(tokens_.size());
    for (const AddedToken& token : file.added_tokens) is_special_[static_cast<std::size_t>(token.id)] = token.is_special;
    for (std::size_t id = 0; id < tokens_.size(); ++id) {
      ids_.emplace(tokens_[id], static_cast<std::int32_t>(id));
      std::optional<std::string> bytes = alphabet.bytes_of(tokens_[id]);
      if (ignore_merges_ && bytes) whole_words_.emplace(*bytes, static_cast<std::int32_t>(id));
      bytes_.push_back(bytes ? std::move(*bytes) : tokens_[id]);
    }
  }

  void encode_pieces(std::string_view text, const IdSink& sink) const override {
    if (const Index at = find_ill_formed(text); at >= 0) throw DataError("[tokenizer] the text is not UTF-8: ill-formed at byte " + std::to_string(at));
    const Lease lease(*this);
    Scratch& scratch = *lease.scratch;
    scratch.ids.clear();
    const auto token = [&](std::int32_t id) { scratch.ids.push_back(id); };
    const auto word = [&](std::string_view w) {
      encode_word(w, scratch);
      if (scratch.ids.size() >= kPieceIds) flush(scratch, sink);
    };
    raw_.split(
        text,
        [&](std::string_view raw) {
          normalized_.split(normalizer_.apply(raw, scratch.normalized), [&](std::string_view piece) { splitter_.split(piece, scratch.split, word); }, token);
        },
        token);
    flush(scratch, sink);
  }

  [[nodiscard]] std::string decode(std::span<const std::int32_t> ids, bool skip_special) const override {
    std::string bytes;
    for (const std::int32_t id : ids) {
      if (id < 0 || static_cast<std::size_t>(id) >= bytes_.size()) continue;
      if (!(skip_special && is_special_[static_cast<std::size_t>(id)])) bytes += bytes_[static_cast<std::size_t>(id)];
    }
    return replace_ill_formed(bytes);
  }

  [[nodiscard]] Index vocab_size() const override { return static_cast<Index>(tokens_.size()); }
  [[nodiscard]] std::optional<std::int32_t> id_of(std::string_view token) const override {
    const auto entry = ids_.find(token);
    return entry == ids_.end() ? std::nullopt : std::optional(entry->second);
  }
  [[nodiscard]] std::optional<std::int32_t> end_of_document() const override { return id_of("<|endoftext|>"); }
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] const std::string& checksum() const override { return checksum_; }

 private:
  static constexpr std::size_t kPieceIds = 1 << 15;

  /// What one call needs and the next can use again, above all the words it has met.
  struct Scratch {
    Splitter::State split;
    WordCache cache;
    std::string normalized;
    std::vector<std::int32_t> ids;
  };
  /// Lends a scratch for one call.
  struct Lease {
    explicit Lease(const BpeTokenizer& tokenizer) : owner(tokenizer) {
      const std::scoped_lock lock(owner.mutex_);
      if (!owner.idle_.empty()) {
        scratch = std::move(owner.idle_.back());
        owner.idle_.pop_back();
      } else {
        scratch = std::make_unique<Scratch>();
      }
    }
    ~Lease() {
      const std::scoped_lock lock(owner.mutex_);
      owner.idle_.push_back(std::move(scratch));
    }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    const BpeTokenizer& owner;
    std::unique_ptr<Scratch> scratch;
  };

  void encode_word(std::string_view word, Scratch& scratch) const {
    std::vector<std::int32_t>& ids = scratch.ids;
    if (scratch.cache.find(word, ids)) return;
    const std::size_t begin = ids.size();
    const auto whole = ignore_merges_ ? whole_words_.find(std::string(word)) : whole_words_.end();
    if (whole != whole_words_.end()) {
      ids.push_back(whole->second);
    } else {
      merges_.encode(word, ids);
    }
    scratch.cache.add(word, std::span(ids).subspan(begin));
  }

  static void flush(Scratch& scratch, const IdSink& sink) {
    if (!scratch.ids.empty()) sink(scratch.ids);
    scratch.ids.clear();
  }

  std::string name_, checksum_;
  std::vector<std::string> tokens_, bytes_;  // by id: as the file spells them; as they stand in a text
  std::vector<bool> is_special_;
  std::unordered_map<std::string_view, std::int32_t> ids_;  // keys lie in tokens_
  std::unordered_map<std::string, std::int32_t> whole_words_;
  Normalizer normalizer_;
  AddedTokenMatcher raw_, normalized_;
  Splitter splitter_;
  MergeTable merges_;
  bool ignore_merges_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> idle_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_bpe_tokenizer(const std::filesystem::path& path) { return std::make_unique<BpeTokenizer>(read_tokenizer_file(path)); }

}  // namespace optimus
