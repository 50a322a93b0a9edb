#pragma once
// What to do after a run has ended: a state machine over what is told to it. It asks no clock, file or node.

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "optimus/launch/diagnosis.hpp"
#include "optimus/launch/restart_budget.hpp"
#include "optimus/launch/world.hpp"

namespace optimus::launch {

struct PolicyOptions {
  Index max_restarts = 100, restarts_per_hour = 30;
  double first_delay_s = 1, longest_delay_s = 300;
  bool may_shrink = false;
  std::function<std::string(Index ranks)> problem_with;  ///< of a smaller world: why the run's configuration does not fit it; empty: it does
};

/// What happens next.
struct Decision {
  bool is_over = false;
  ExitCode code = ExitCode::kDone;                            ///< if it is over
  double delay_s = 0;                                         ///< else before the next start
  std::vector<std::pair<std::string, std::string>> replaced;  ///< node, and the one that takes its place
  std::vector<std::string> lines;                             ///< for the log, what is done and why; if it is over, the last says what to do
};

/// Keeps the nodes in use and the buffer nodes, and the memory of what has failed.
///
/// - A node that its examination finds unfit leaves for good, and is replaced first. A node that is fit but was blamed makes room for a fresh buffer node, if
///   one remains, and becomes the last of the buffer nodes: a process that was killed says little about its machine, and a machine that flips bits may pass a
///   test.
/// - The same step failing on another fit node than before is a bug of the run. On the same node three times: nothing is left to try but that node.
/// - Mistakes in configuration (2), data (3) and checkpoints (4) are never tried again.
class Policy {
 public:
  /// All `hosts` are fit; the first `world.nodes` are used.
  Policy(const std::vector<Host>& hosts, World world, PolicyOptions options);
  [[nodiscard]] const std::vector<Host>& active() const { return active_; }
  [[nodiscard]] const std::vector<Host>& spares() const { return spares_; }
  [[nodiscard]] const World& world() const { return world_; }

  /// After a start that ended with `d`. `unfit`: nodes (of both kinds) with their problem, from an examination after the end.
  [[nodiscard]] Decision after(const Diagnosis& d, const std::map<std::string, std::string>& unfit, double now_s);

 private:
  /// The step that failed last on nodes that were fit, in the same way, and on which.
  struct Crash {
    Index step = -1;
    ExitCode code = ExitCode::kDone;
    Index count = 0;
    std::vector<std::string> nodes;
  };
  [[nodiscard]] bool is_repeated(const Diagnosis& d, Decision& decision);
  [[nodiscard]] bool is_out_of_budget(const Diagnosis& d, double now_s, Decision& decision);
  void remove_unfit(const std::map<std::string, std::string>& unfit, std::vector<std::string>& unfit_active, Decision& decision);
  /// One that was never blamed, if there is any.
  [[nodiscard]] std::optional<Host> take_spare();
  void replace(const std::vector<std::string>& unfit_active, const std::vector<std::string>& blamed, Decision& decision);
  [[nodiscard]] bool shrink(Decision& decision);

  World world_;
  PolicyOptions options_;
  std::vector<Host> active_, spares_;
  std::vector<std::string> suspects_;  ///< spares that were blamed
  Crash crash_;
  RestartBudget budget_;
  Index consecutive_ = 0, furthest_step_ = -1;
};

}  // namespace optimus::launch
