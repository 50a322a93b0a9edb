#pragma once
// A group whose transfers take as long as on a slower network: shows on one machine how much of the communication a step hides.

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "optimus/comm/communicator.hpp"

namespace optimus {

/// The network of one rank in one group.
struct Link {
  double latency_s = 0;
  double bytes_per_s = std::numeric_limits<double>::infinity();
};
/// The link of a group, by the group's name ("world", "dp", …).
using LinkRule = std::function<Link(std::string_view group)>;

/// What one rank was held up by, in all groups of one name.
///
///   share hidden = 1 - waited_s / injected_s
struct DelayTotals {
  std::string group;
  Index num_transfers = 0;
  double injected_s = 0;  ///< latency_s + bytes / bytes_per_s of each transfer; a message counts at its receiver
  double waited_s = 0;    ///< that a caller stood still only because of the link: the real transfer was done
};

/// The given group, and all made from it, over slower links. The same bytes arrive.
///
/// A collective or message of this rank is done no earlier than start + latency_s + bytes / bytes_per_s. A link carries one at a time: the next
/// starts when the one before is over. Each group has a link of its own; receiving does not take it. A received message is done when its
/// sender's link is: both read the clock of one machine. Requests honour this in wait() and test(); what has to wait lets other transfers progress.
///
/// Bytes that member r of n sends, for views of B bytes, as in a ring:
///   all_reduce 2 B (n-1)/n;  reduce_scatter B_input (n-1)/n;  all_gather B_input (n-1);  reduce_scatter_v B_input - own part;
///   all_gather_v B_output - part of member r+1;  all_to_all_v B_input - own part;  broadcast and send B;  barrier 0.  A group of one and a message to oneself are not delayed.
class DelayedCommunicator : public Communicator {
 public:
  /// One entry for each name of a group, in the order of their making; groups that are gone are in it.
  [[nodiscard]] virtual std::vector<DelayTotals> totals() const = 0;
};

/// `inner` must outlive it. All members of a group are decorated, with the same rule.
/// Errors: ConfigError if a latency is negative or a bandwidth not above 0.
[[nodiscard]] std::unique_ptr<DelayedCommunicator> make_delayed_communicator(Communicator& inner, LinkRule rule);
[[nodiscard]] std::unique_ptr<DelayedCommunicator> make_delayed_communicator(std::unique_ptr<Communicator> inner, LinkRule rule);

}  // namespace optimus
