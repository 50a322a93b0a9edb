#pragma once
// When to ask the nodes whether the run's ranks still exist, and when the starter has outlived them. The caller brings the clock, in seconds.

#include <algorithm>

#include "optimus/base/index.hpp"

namespace optimus::launch {

/// A starter may lose a node and then wait for ever, its ranks gone. The limit on silence would find that out too, but that is as long as the longest step.
///
/// Asking costs a call of every node, so it is done at twice the longest silence that has proved harmless: a run whose steps take a minute is not asked in each.
/// The first call comes at once: only who has been seen can be missed, and a site may hide ranks from the supervisor (containers, other users).
class RollCall {
 public:
  static constexpr double kFirst_s = 2;        ///< of silence before the first call
  static constexpr double kWithoutNode_s = 1;  ///< nobody is left for so long, and a node does not answer: it took the starter's way to the others with it
  static constexpr double kAllAnswer_s = 10;   ///< the same where all nodes answer: the starter may be about to end

  /// Whether to call now, `silence_s` after the last sign of life.
  [[nodiscard]] bool is_due(double silence_s, double now_s) {
    if (silence_s < last_silence_s_) longest_s_ = std::max(longest_s_, last_silence_s_);  // it ended: the run lives
    last_silence_s_ = silence_s;
    if (!was_called_) return true;
    if (is_none_) return now_s - called_at_s_ >= kWithoutNode_s;
    return silence_s >= std::max(kFirst_s, 2 * longest_s_);
  }

  /// Takes the answers of `nodes` nodes; true if the starter has outlived its ranks.
  [[nodiscard]] bool is_nobody_left(Index ranks, Index unanswered, Index nodes, double silence_s, double now_s) {
    called_at_s_ = now_s;
    was_called_ = true;
    if (ranks > 0) was_anybody_seen_ = true;
    if (ranks > 0 || unanswered == nodes || !was_anybody_seen_) {
      is_none_ = false;
      longest_s_ = std::max(longest_s_, silence_s);
      return false;
    }
    if (!is_none_) none_since_s_ = now_s;
    is_none_ = true;
    return now_s - none_since_s_ >= (unanswered > 0 ? kWithoutNode_s : kAllAnswer_s);
  }

 private:
  double longest_s_ = 0, last_silence_s_ = 0, called_at_s_ = 0, none_since_s_ = 0;
  bool was_called_ = false, was_anybody_seen_ = false;
  bool is_none_ = false;  ///< since none_since_s_ every call found nobody
};

}  // namespace optimus::launch
