#pragma once
// The sums of all gradients over their replica groups, begun while backward still runs. Internal to this folder.

#include <memory>
#include <optional>
#include <vector>

#include "optimus/backend/backend.hpp"
#include "optimus/optim/replicas.hpp"
#include "optimus/optim/sharded_optimizer.hpp"

namespace optimus {

/// One step's reduction after another: restart(), any number of complete(), finish() or drop().
///
/// Buckets start in the order of the plan, the same on all ranks: one that is complete waits for those before it, and for a place among the transfers
/// under way. What starts when has no influence on the result.
class Reduction final : public Progress {
 public:
  using NonFinite = ShardedOptimizer::NonFinite;

  /// With `overlap` complete() counts, and several transfers are under way; the world is asked to let them start while ranks wait for something else.
  Reduction(std::vector<BucketStorage>& buckets, const std::vector<ParamSpec>& specs, const Replicas& replicas, Backend& backend, bool overlap);
  ~Reduction() override;
  Reduction(const Reduction&) = delete;
  Reduction& operator=(const Reduction&) = delete;

  /// All gradients are incomplete again.  Errors: InternalError if transfers were begun and not ended.
  void restart();
  /// The gradients of `layer` are complete.  Errors: InternalError if they were already.
  void complete(Index layer);
  /// Starts what can be started.
  void advance() override;
  /// Reduces what is left and waits for all. Returns the sum of squares of the reduced gradients that this rank speaks for.
  double finish();
  /// Ends the step without a result. With overlap all transfers are made, whatever this rank has begun: others may have begun more.
  void drop();
  /// Looks through what was not looked through before its transfer.
  [[nodiscard]] std::optional<NonFinite> find_nonfinite();

 private:
  /// What is known of a bucket in this step.
  struct State {
    std::vector<Index> missing;  ///< layers
    bool is_checked = false;
    std::optional<NonFinite> nonfinite;
    double local_squares = 0;  ///< of the gradients before the reduction; where checked
    double squares = 0;        ///< of the reduced shard
    bool is_done = false;      ///< the transfer; of those that were started
    std::unique_ptr<Request> request;
  };
  void check(std::size_t i);
  void start_next();
  void wait(std::size_t i);
  [[nodiscard]] Index num_under_way();
  void add_squares(std::size_t i);
  template <class Action> void for_each_transfer(Action after);

  std::vector<BucketStorage>& buckets_;
  const std::vector<ParamSpec>& specs_;
  const Replicas& replicas_;
  Backend& backend_;
  bool overlap_;
  std::vector<State> states_;
  std::size_t num_started_ = 0;
  std::size_t waited_for_ = 0;  ///< its request is in use
  bool is_advancing_ = false;
  bool is_finished_ = false;
};

}  // namespace optimus
