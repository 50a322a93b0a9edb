#pragma once
// When a link is free again, and what was waited for it. Private to this folder.

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "optimus/comm/delayed/delayed.hpp"

namespace optimus::delayed {

using Clock = std::chrono::steady_clock;
using Moment = Clock::time_point;

/// Rule and totals of all groups that came from one decorated group.
class Book {
 public:
  explicit Book(LinkRule rule) : rule_(std::move(rule)) {}
  /// Errors: ConfigError for a link that cannot be.
  [[nodiscard]] Link link(const std::string& group) const;
  [[nodiscard]] DelayTotals& totals(const std::string& group);
  [[nodiscard]] std::vector<DelayTotals> all() const;

 private:
  LinkRule rule_;
  std::vector<std::unique_ptr<DelayTotals>> totals_;  ///< their addresses stay
};

/// The link of one rank in one group.
class Line {
 public:
  Line(Book& book, const std::string& group) : link_(book.link(group)), totals_(book.totals(group)) {}
  /// Puts `bytes` on the link.  Returns when they are over.
  Moment send(double bytes);
  /// A transfer of `bytes` counts as injected here.
  void count(double bytes);
  void count_wait(Moment begin, Moment end) { totals_.waited_s += std::chrono::duration<double>(end - begin).count(); }

 private:
  [[nodiscard]] double seconds(double bytes) const { return link_.latency_s + bytes / link_.bytes_per_s; }
  Link link_;
  DelayTotals& totals_;
  Moment free_ = Moment::min();
};

/// Stands still until `due`, while what is under way in `inner` progresses.
void wait_until(Communicator& inner, Line& line, Moment due);

}  // namespace optimus::delayed
