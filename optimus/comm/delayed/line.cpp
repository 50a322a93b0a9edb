#include "optimus/comm/delayed/line.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "optimus/base/error.hpp"

namespace optimus::delayed {

Link Book::link(const std::string& group) const {
  const Link link = rule_(group);
  if (!(link.latency_s >= 0) || !(link.bytes_per_s > 0))
    throw ConfigError(fmt::format("[comm] the link of {} has a latency of {} s and {} bytes/s; at least 0 and more than 0 are possible", group, link.latency_s,
                                  link.bytes_per_s));
  return link;
}

DelayTotals& Book::totals(const std::string& group) {
  const auto found = std::find_if(totals_.begin(), totals_.end(), [&](const auto& entry) { return entry->group == group; });
  if (found != totals_.end()) return **found;
  return *totals_.emplace_back(std::make_unique<DelayTotals>(DelayTotals{.group = group}));
}

std::vector<DelayTotals> Book::all() const {
  std::vector<DelayTotals> all;
  for (const auto& entry : totals_) all.push_back(*entry);
  return all;
}

Moment Line::send(double bytes) {
  free_ = std::max(free_, Clock::now()) + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds(bytes)));
  return free_;
}

void Line::count(double bytes) {
  ++totals_.num_transfers;
  totals_.injected_s += seconds(bytes);
}

void wait_until(Communicator& inner, Line& line, Moment due) {
  constexpr auto kNap = std::chrono::microseconds(100);
  const Moment begin = Clock::now();
  Moment now = begin;
  while (now < due) {
    inner.poll();
    std::this_thread::sleep_for(std::min<Clock::duration>(kNap, due - now));
    now = Clock::now();
  }
  line.count_wait(begin, now);
}

}  // namespace optimus::delayed
