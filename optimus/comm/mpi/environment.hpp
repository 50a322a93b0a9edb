#pragma once
// MPI's lifetime in this process, and the group of all ranks. mpi.h stays inside this folder.

#include <memory>
#include <string>

#include "optimus/comm/communicator.hpp"

namespace optimus {

/// How collectives are carried out; the same on all ranks. Results never depend on it, to the last bit.
struct MpiTuning {
  Index message_bytes = Index{1} << 30;  ///< longest single message; longer transfers are split (MPI counts in int)
  Index staging_bytes = Index{8} << 20;  ///< memory for parts that wait to be added, of one reduction under way
  Index gathered_reduce_bytes = 4096;    ///< an all_reduce up to this size gathers everything everywhere and adds there
  Index direct_members = 16;             ///< groups up to this size exchange directly, where a missing member can be named; larger ones by trees
  Index peers_per_round = 16;            ///< members a rank exchanges with at the same time
};

/// MPI from start to end. One object at a time, and once in the life of a process.
///
/// Waiting polls: all transfers under way progress, whatever is waited for. Use from one thread at a time.
class MpiEnvironment {
 public:
  static constexpr double kTimeLimit_s = 600;  ///< of every wait, until somebody sets another

  /// Whether an MPI starter (mpirun, mpiexec, srun) started this process. If not, nothing of MPI need be touched.
  [[nodiscard]] static bool is_started_by_mpi();

  /// Starts MPI; `limit_s` is the first time limit. Where not all ranks come to the start within it, the process ends with ExitCode::kLostRank.
  /// Errors: CommError, also if the starter promised another number of ranks than the library finds (two MPIs mixed).
  explicit MpiEnvironment(double limit_s = kTimeLimit_s);
  /// Ends without a word to MPI if neither close() nor finish() was called; the starter then ends the other ranks.
  ~MpiEnvironment();
  MpiEnvironment(const MpiEnvironment&) = delete;
  MpiEnvironment& operator=(const MpiEnvironment&) = delete;

  /// The group of all ranks; each call makes one whose messages are apart from the others'.  Collective. All communicators must be gone before close().
  [[nodiscard]] std::unique_ptr<Communicator> world();
  /// Longest wait without any progress before a CommError.
  void set_time_limit(double seconds);
  void set_tuning(const MpiTuning& tuning);
  /// The library's own words about itself.
  [[nodiscard]] std::string library() const;

  /// Ends MPI.  Collective: over all ranks, all transfers done. Where a rank does not come within the time limit, the process ends with ExitCode::kLostRank.
  void close();
  /// Ends MPI after an error, however the other ranks stand: quietly if all of them come here within `patience_s`, otherwise abort(code).
  void finish(int code, double patience_s = 10);
  /// Ends all ranks at once; the starter's exit code is `code` where it can be.
  [[noreturn]] void abort(int code);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace optimus
