#include "optimus/data/merges.hpp"

#include <bit>
#include <queue>

#include "optimus/data/utf8.hpp"

namespace optimus {
namespace {

constexpr std::uint64_t kNoPair = ~std::uint64_t{0};
constexpr std::uint32_t kNoRank = ~std::uint32_t{0};
constexpr std::size_t kShortWord = 48;  // bytes up to which looking at all pairs again is faster than a queue

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) | static_cast<std::uint32_t>(right);
}
std::uint64_t scramble(std::uint64_t pair) { return (pair ^ (pair >> 29)) * 0x9E3779B97F4A7C15ULL; }

}  // namespace

MergeTable::MergeTable(std::span<const Merge> merges, const ByteTokens& bytes) : bytes_(bytes) {
  const std::size_t places = std::bit_ceil(std::max<std::size_t>(2 * merges.size(), 2));
  shift_ = 64 - std::countr_zero(places);
  table_.assign(places, Entry{kNoPair, 0, 0});
  std::uint32_t rank = 0;
  for (const Merge& merge : merges) {
    const std::uint64_t pair = pair_of(merge.left, merge.right);
    std::size_t place = scramble(pair) >> shift_;
    while (table_[place].pair != kNoPair && table_[place].pair != pair) place = (place + 1) & (places - 1);
    table_[place] = {pair, rank++, merge.result};
  }
}

const MergeTable::Entry* MergeTable::find(std::int32_t left, std::int32_t right) const {
  const std::uint64_t pair = pair_of(left, right);
  for (std::size_t place = scramble(pair) >> shift_;; place = (place + 1) & (table_.size() - 1)) {
    if (table_[place].pair == pair) return &table_[place];
    if (table_[place].pair == kNoPair) return nullptr;
  }
}

void MergeTable::encode(std::string_view word, std::vector<std::int32_t>& ids) const {
  const std::size_t begin = ids.size();
  first_tokens(word, ids);
  const std::size_t count = ids.size() - begin;
  ids.resize(begin + (count <= kShortWord ? merge_short(ids.data() + begin, count) : merge_long(ids.data() + begin, count)));
}

void MergeTable::first_tokens(std::string_view word, std::vector<std::int32_t>& ids) const {
  bool after_unknown = false;
  for (const char c : word) {
    const std::int32_t id = bytes_.id[static_cast<unsigned char>(c)];
    if (id >= 0) {
      ids.push_back(id);
    } else if (bytes_.unknown && !(after_unknown && bytes_.fuse_unknown)) {
      ids.push_back(*bytes_.unknown);
    }
    after_unknown = id < 0;
  }
}

std::size_t MergeTable::merge_short(std::int32_t* ids, std::size_t count) const {
  std::array<std::uint32_t, kShortWord> rank;  // of the pair (i, i + 1)
  std::array<std::int32_t, kShortWord> result;
  const auto look_up = [&](std::size_t i) {
    const Entry* entry = i + 1 < count ? find(ids[i], ids[i + 1]) : nullptr;
    rank[i] = entry != nullptr ? entry->rank : kNoRank;
    result[i] = entry != nullptr ? entry->result : 0;
  };
  for (std::size_t i = 0; i < count; ++i) look_up(i);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i) best = rank[i] < rank[best] ? i : best;
    if (rank[best] == kNoRank) break;
    ids[best] = result[best];
    for (std::size_t i = best + 1; i + 1 < count; ++i) {
      ids[i] = ids[i + 1];
      rank[i] = rank[i + 1];
      result[i] = result[i + 1];
    }
    --count;
    look_up(best);
    if (best > 0) look_up(best - 1);
  }
  return count;
}

std::size_t MergeTable::merge_long(std::int32_t* ids, std::size_t count) const {
  // A doubly linked list over the places; a dead place has id -1. Queue entries go stale when a neighbour changes and are then passed over.
  struct Candidate {
    std::uint32_t rank;
    std::size_t at;
    std::int32_t left, right, result;
  };
  const auto later = [](const Candidate& a, const Candidate& b) { return a.rank != b.rank ? a.rank > b.rank : a.at > b.at; };
  std::priority_queue<Candidate, std::vector<Candidate>, decltype(later)> queue(later);
  std::vector<std::size_t> next(count), previous(count);
  const auto offer = [&](std::size_t i) {
    if (next[i] >= count) return;
    if (const Entry* entry = find(ids[i], ids[next[i]])) queue.push({entry->rank, i, ids[i], ids[next[i]], entry->result});
  };
  for (std::size_t i = 0; i < count; ++i) {
    next[i] = i + 1;
    previous[i] = i > 0 ? i - 1 : count;
  }
  for (std::size_t i = 0; i < count; ++i) offer(i);
  while (!queue.empty()) {
    const Candidate c = queue.top();
    queue.pop();
    const std::size_t right = next[c.at];
    if (ids[c.at] != c.left || right >= count || ids[right] != c.right) continue;
    ids[c.at] = c.result;
    ids[right] = -1;
    next[c.at] = next[right];
    if (next[right] < count) previous[next[right]] = c.at;
    offer(c.at);
    if (previous[c.at] < count) offer(previous[c.at]);
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count; i = next[i]) ids[kept++] = ids[i];
  return kept;
}

}  // namespace optimus
