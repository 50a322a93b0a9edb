#pragma once
// Remembers the ids of words met before: text repeats its words far more often than it brings new ones.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace optimus {

/// Word → ids, for one thread. Bounded: about 4 MB; when it is full it forgets everything and begins again.
class WordCache {
 public:
  static constexpr std::size_t kMaxWordBytes = 64;

  WordCache();
  /// Appends the ids of `word` and returns true, if it is known.
  [[nodiscard]] bool find(std::string_view word, std::vector<std::int32_t>& ids);
  /// Remembers `word`, which the last find() did not know.
  void add(std::string_view word, std::span<const std::int32_t> ids);

 private:
  struct Entry {
    std::uint32_t tag = 0;  ///< upper half of the hash; 0 with word_bytes 0: an empty place
    std::uint32_t word_begin = 0;
    std::uint32_t ids = 0;  ///< the id itself where there is one, else where the ids begin
    std::uint16_t word_bytes = 0, num_ids = 0;
  };
  static constexpr std::size_t kPlaces = std::size_t{1} << 17;
  static constexpr std::size_t kMaxWords = kPlaces / 2;

  void clear();

  std::vector<Entry> table_;
  std::vector<char> words_;
  std::vector<std::int32_t> ids_;
  std::size_t num_words_ = 0;
  std::uint64_t last_hash_ = 0;
};

}  // namespace optimus
