#include "optimus/comm/agree_on.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "optimus/base/error.hpp"
#include "optimus/base/hash.hpp"

namespace optimus {
namespace {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

/// The lines that are different, the first few: "[optimizer] expected "lr = 1", found "lr = 2"".
std::string describe_difference(std::string_view expected_text, std::string_view found_text) {
  constexpr int kMost = 3;
  const auto expected = lines_of(expected_text), found = lines_of(found_text);
  const auto line = [](const std::vector<std::string_view>& lines, std::size_t i) {
    return i < lines.size() ? fmt::format("\"{}\"", lines[i]) : std::string("nothing");
  };
  std::string heading, all;
  int count = 0;
  for (std::size_t i = 0; i < std::max(expected.size(), found.size()); ++i) {
    if (i < expected.size() && expected[i].starts_with('[')) heading = std::string(expected[i]) + " ";
    if (i < expected.size() && i < found.size() && expected[i] == found[i]) continue;
    if (++count > kMost) break;
    all += fmt::format("{}{}expected {}, found {}", count == 1 ? "" : "; ", heading, line(expected, i), line(found, i));
  }
  return count > kMost ? all + "; and more" : all;
}

/// "ranks 1, 2, 5 and 9 more".
std::string list_ranks(const std::vector<Index>& ranks) {
  constexpr std::size_t kMost = 8;
  const std::size_t shown = std::min(ranks.size(), kMost);
  std::string text = fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  return shown < ranks.size() ? text + fmt::format(" and {} more", ranks.size() - shown) : text;
}

/// The lowest rank of those that most agree with, and all that do not, given everybody's hash.
std::pair<Index, std::vector<Index>> find_minority(const std::vector<std::int64_t>& hashes) {
  std::map<std::int64_t, Index> votes;
  for (const std::int64_t hash : hashes) ++votes[hash];
  std::size_t best = 0;
  for (std::size_t r = 1; r < hashes.size(); ++r)
    if (votes[hashes[r]] > votes[hashes[best]]) best = r;
  std::vector<Index> others;
  for (std::size_t r = 0; r < hashes.size(); ++r)
    if (hashes[r] != hashes[best]) others.push_back(static_cast<Index>(r));
  return {static_cast<Index>(best), others};
}

}  // namespace

void agree_on(Communicator& comm, std::string_view what, std::string_view text) {
  const auto hash = static_cast<std::int64_t>(xxh64(text));
  // The smallest hash, and the complement of the largest.
  std::array<std::int64_t, 2> ends = {hash, ~hash};
  comm.all_reduce({reinterpret_cast<std::byte*>(ends.data()), DType::kI64, {2}}, Reduce::kMin);
  if (ends[0] == ~ends[1]) return;

  std::vector<std::int64_t> hashes(static_cast<std::size_t>(comm.size()));
  comm.all_gather({reinterpret_cast<const std::byte*>(&hash), DType::kI64, {1}}, {reinterpret_cast<std::byte*>(hashes.data()), DType::kI64, {comm.size()}});
  const auto [expected, others] = find_minority(hashes);
  const std::string expected_text = broadcast_text(comm, text, expected), found_text = broadcast_text(comm, text, others.front());
  const Index num_alike = comm.size() - static_cast<Index>(others.size());
  throw ConfigError(fmt::format("[comm] {} {} another {} than rank {}{}. On rank {}: {}. Start all ranks with the same program and settings",
                                list_ranks(others), others.size() == 1 ? "has" : "have", what, expected,
                                num_alike > 1 ? fmt::format(" and {} more", num_alike - 1) : "", others.front(),
                                describe_difference(expected_text, found_text)));
}

}  // namespace optimus
