#pragma once
// What ends a run, told under the names of the ranks where it began: in failures.jsonl, in the log and in the error itself.

#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "optimus/comm/communicator.hpp"
#include "optimus/comm/mesh.hpp"
#include "optimus/train/heartbeats.hpp"

namespace optimus {

/// One rank's NaN or Inf.
struct NumberProblem {
  std::string what;  ///< "nan …" or "inf …"; empty: none
  Index order = 0;   ///< of several ranks with one that compute one model together it began at those with the lowest
};

class RunFailures {
 public:
  /// Collective: over `world`, which must outlive it, as `heartbeats` must.
  RunFailures(Communicator& world, const Heartbeats& heartbeats, std::filesystem::path run_dir, double watchdog_s, const Mesh& mesh);

  /// All ranks' problems in one text that says where it began and whom it reached; those where it began go into failures.jsonl. Empty if no rank has one.
  /// Collective: over the world.
  [[nodiscard]] std::string describe(const NumberProblem& mine, Index step);
  /// Writes down what ends the run in `step`, unless that has been done under the names of the ranks that had it.
  void record(const std::exception& error, Index step);
  /// For an error of waiting: throws it anew under the name of the rank that has fallen silent, and has the first of the others write it down.
  /// Returns if there is no such rank.  Errors: CommError.
  void blame_silent(const std::exception& error);
  /// This rank has been at one place for too long: says so, or names the rank that it waits for, and ends the process, also where files cannot be written.
  [[noreturn]] void end_stuck() const;
  /// As end_stuck(), for what this rank does for the checkpoint of `step` in a thread, whatever it does beside it.
  [[noreturn]] void end_stuck_save(Index step, const std::string& what) const;

 private:
  [[nodiscard]] std::vector<RankPlace> silent() const;
  [[nodiscard]] std::string describe(const std::vector<RankPlace>& silent) const;
  [[noreturn]] void end_stuck_at(const RankPlace& place, const std::string& what) const;
  void append(const RankPlace& place, const char* kind, const std::string& message) const noexcept;
  /// Once in a start, by whichever rank is first: those that waited, and the stuck one itself, tell of the same. A stopped rank that is woken to be ended finds
  /// the others gone and would accuse them.
  void append_hang(const RankPlace& place, const std::string& message) const noexcept;
  void append_first(const RankPlace& place, const char* kind, const std::string& message) const noexcept;

  Communicator& world_;
  const Heartbeats& heartbeats_;
  std::filesystem::path run_dir_;
  double watchdog_s_;
  Index bytes_before_;  ///< of failures.jsonl: what earlier starts wrote
  std::vector<std::string> hosts_;
  std::vector<Index> model_of_;  ///< of each rank: ranks of different ones exchange nothing before gradients are summed
  Index recorded_step_ = 0;      ///< the last step whose failure is in failures.jsonl, under the ranks that had it
};

}  // namespace optimus
