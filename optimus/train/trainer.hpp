#pragma once
// The loop: a run from its configuration to its last checkpoint.

#include <memory>

#include "optimus/backend/backend.hpp"
#include "optimus/base/error.hpp"
#include "optimus/comm/communicator.hpp"
#include "optimus/train/run_config.hpp"

namespace optimus {

/// One rank's share of a run.
///
/// Collective: construction and run(), over `world`.
class Trainer {
 public:
  /// Opens the data, makes the run folder and the state, and resumes.
  /// `peak_flops`: measured arithmetic peak of all ranks together, for MFU; 0: not known.
  Trainer(const RunConfig& config, Communicator& world, Backend& backend, double peak_flops);
  ~Trainer();
  /// Trains to the end, or until a signal, and saves. kDone or kStoppedBySignal.
  /// Errors: NumericError (NaN or Inf with `nonfinite = "stop"`), CommError (a rank is gone), DataError, FileError, CheckpointError.
  [[nodiscard]] ExitCode run();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// OpenMP threads of this rank: usable cores divided by the ranks that share them, unless OMP_NUM_THREADS says otherwise.
/// Collective: over `world`.
[[nodiscard]] int choose_threads(Communicator& world);

}  // namespace optimus
