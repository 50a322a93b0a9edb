#include "optimus/data/word_cache.hpp"

#include <algorithm>
#include <cstring>

namespace optimus {
namespace {

std::uint64_t load(const char* p, std::size_t bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, p, bytes);
  return value;
}

/// Eight bytes a step, multiplied and folded. Only speed and spread matter here.
std::uint64_t hash_of(std::string_view word) {
  std::uint64_t h = 0x9E3779B97F4A7C15ULL ^ word.size();
  const char* p = word.data();
  std::size_t left = word.size();
  for (; left >= 8; left -= 8, p += 8) h = (h ^ load(p, 8)) * 0xD6E8FEB86659FD93ULL, h ^= h >> 32;
  if (left > 0) h = (h ^ load(p, left)) * 0xD6E8FEB86659FD93ULL, h ^= h >> 32;
  h *= 0xD6E8FEB86659FD93ULL;
  return h ^ (h >> 29);
}

}  // namespace

WordCache::WordCache() : table_(kPlaces) {}

void WordCache::clear() {
  std::fill(table_.begin(), table_.end(), Entry{});
  words_.clear();
  ids_.clear();
  num_words_ = 0;
}

bool WordCache::find(std::string_view word, std::vector<std::int32_t>& ids) {
  if (word.size() > kMaxWordBytes) return false;
  const std::uint64_t hash = last_hash_ = hash_of(word);
  const auto tag = static_cast<std::uint32_t>(hash >> 32);
  for (std::size_t place = hash % kPlaces; table_[place].word_bytes != 0; place = (place + 1) % kPlaces) {
    const Entry& entry = table_[place];
    if (entry.tag != tag || entry.word_bytes != word.size() || std::memcmp(words_.data() + entry.word_begin, word.data(), word.size()) != 0) continue;
    if (entry.num_ids == 1) {
      ids.push_back(static_cast<std::int32_t>(entry.ids));
    } else {
      ids.insert(ids.end(), ids_.begin() + entry.ids, ids_.begin() + entry.ids + entry.num_ids);
    }
    return true;
  }
  return false;
}

void WordCache::add(std::string_view word, std::span<const std::int32_t> ids) {
  if (word.empty() || word.size() > kMaxWordBytes) return;
  if (num_words_ >= kMaxWords) clear();
  std::size_t place = last_hash_ % kPlaces;
  while (table_[place].word_bytes != 0) place = (place + 1) % kPlaces;
  Entry& entry = table_[place];
  entry.tag = static_cast<std::uint32_t>(last_hash_ >> 32);
  entry.word_begin = static_cast<std::uint32_t>(words_.size());
  entry.word_bytes = static_cast<std::uint16_t>(word.size());
  entry.num_ids = static_cast<std::uint16_t>(ids.size());
  words_.insert(words_.end(), word.begin(), word.end());
  if (ids.size() == 1) {
    entry.ids = static_cast<std::uint32_t>(ids.front());
  } else {
    entry.ids = static_cast<std::uint32_t>(ids_.size());
    ids_.insert(ids_.end(), ids.begin(), ids.end());
  }
  ++num_words_;
}

}  // namespace optimus
