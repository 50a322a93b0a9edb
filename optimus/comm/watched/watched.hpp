#pragma once
// A group that notes what its transfers show of this rank: how long it waited for others, and whether it handed on a NaN or Inf.

#include <memory>
#include <optional>
#include <string>

#include "optimus/comm/communicator.hpp"

namespace optimus {

/// What one rank knows of its transfers, in all groups that share it. Outlives them.
///
/// Where a NaN began: ranks that compute one model together infect each other by what they exchange, and each sees it in its own loss or gradients at last. So
/// what a rank sends is looked at first. A transfer has a number that grows along every way that numbers take from rank to rank: the place in the
/// model that the caller gives, then the count of transfers since. The lowest number at which any rank sent a NaN is where it began.
class TransferWatch {
 public:
  struct Sent {
    Index order = 0;       ///< place * kTransfersPerPlace + transfers since
    bool is_nan = true;    ///< else Inf
    std::string transfer;  ///< "all_to_all over ep"
  };
  static constexpr Index kTransfersPerPlace = Index{1} << 20;

  /// Forgets what was sent, and looks at what the groups in which a layer is computed (tp, ep and those made from them) send from now on.
  void start_looking() {
    is_looking_ = true;
    sent_.reset();
    order_ = 0;
  }
  void stop_looking() { is_looking_ = false; }
  /// What follows belongs to `place`.
  void enter(Index place) { order_ = place * kTransfersPerPlace; }
  /// The first NaN or Inf that this rank sent since start_looking().
  [[nodiscard]] const std::optional<Sent>& first_nonfinite() const { return sent_; }

  /// Seconds that this rank stood in a transfer, since the start.
  [[nodiscard]] double waited_s() const { return waited_s_; }
  /// Seconds in which it was looked at what is sent, since the start.
  [[nodiscard]] double looked_s() const { return looked_s_; }

  /// For drills: the next floating number sent while looking becomes this.
  void spoil_next(double number) { spoil_ = number; }

  /// Counts a transfer and looks at what this rank sends in it. The groups do it themselves; but a pipeline's messages are bytes when they come to its group, and
  /// their sender tells of them. `first_for_others`: the first element that leaves this rank.
  void look_at(const Communicator& group, const char* transfer, ConstView data, Index first_for_others = 0);
  void add_waited(double seconds) { waited_s_ += seconds; }

 private:
  bool is_looking_ = false;
  Index order_ = 0;
  std::optional<Sent> sent_;
  std::optional<double> spoil_;
  double waited_s_ = 0, looked_s_ = 0;
};

/// The given group, and all made from it, noted in `watch`. The same bytes arrive. `inner` and `watch` must outlive it.
[[nodiscard]] std::unique_ptr<Communicator> make_watched_communicator(Communicator& inner, TransferWatch& watch);

}  // namespace optimus
